"""What people see: the terminal while a run goes on, and the page with plots afterwards."""
