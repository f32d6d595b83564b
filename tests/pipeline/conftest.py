"""Without PySpark, everything here is skipped."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")
pytest.importorskip("pyarrow", reason="needs the extra `pipeline`: pip install 'oncelog[pipeline]'")
