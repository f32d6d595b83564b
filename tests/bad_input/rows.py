"""Which test covers which row of the list of bad input, and which issue brings the rest.

The list has 70 rows; their numbers are those of its first column. A row may stand in both tables: the part that
needs accounts then comes with its issue.
"""

from __future__ import annotations

ROW_COUNT = 70

ROWS: dict[int, tuple[str, ...]] = {
    1: ("test_wire::test_a_frame_size_that_cannot_be_one",),
    2: (
        "test_wire::test_a_frame_too_short_for_a_header",
        "test_wire::test_a_header_without_its_client_id",
    ),
    4: (
        "test_connections::test_a_claimed_size_costs_nothing_until_bytes_come",
        "test_connections::test_a_request_that_stops_in_the_middle",
        "test_connections::test_a_trickle_is_no_progress_but_a_slow_upload_is",
    ),
    5: (
        "test_wire::test_an_api_or_a_version_that_is_not_there",
        "test_wire::test_a_declared_api_without_a_handler",
    ),
    6: ("test_wire::test_api_versions_of_the_future_is_answered_in_version_0",),
    7: ("test_wire::test_a_malformed_software_name",),
    8: (
        "test_wire::test_an_array_of_negative_length",
        "test_wire::test_a_null_array_that_may_not_be_null",
    ),
    9: ("test_wire::test_an_array_longer_than_the_bytes_that_are_left",),
    10: ("test_wire::test_fifty_million_elements_of_one_byte",),
    11: ("test_wire::test_twenty_million_tagged_fields_in_a_header",),
    12: ("test_wire::test_malformed_tagged_fields",),
    13: ("test_wire::test_a_malformed_string",),
    14: ("test_wire::test_bytes_behind_the_body_are_ignored",),
    15: (
        "test_wire::test_strange_client_ids_are_served",
        "test_wire::test_what_a_client_sends_stays_on_one_line_of_the_log",
    ),
    16: (
        "test_connections::test_ten_thousand_requests_of_a_client_that_never_reads",
        "test_connections::test_ten_thousand_requests_are_answered_in_order",
        "test_connections::test_a_flood_of_requests_leaves_others_their_turn",
    ),
    17: (
        "test_wire::test_every_array_of_every_request_empty",
        "test_wire::test_one_empty_element_in_every_array_of_every_request",
    ),
    24: ("test_produce::test_acks_that_do_not_exist",),
    25: ("test_produce::test_an_error_with_acks_0_closes",),
    26: ("test_produce::test_records_that_are_not_one_batch_of_magic_2",),
    27: ("test_produce::test_an_unknown_magic_or_an_impossible_length",),
    28: ("test_produce::test_a_batch_that_is_cut_off",),
    29: ("test_produce::test_a_wrong_crc",),
    30: ("test_produce::test_a_base_offset",),
    31: ("test_produce::test_counts_and_offsets_that_disagree",),
    32: (
        "test_produce::test_a_control_batch_from_a_client",
        "test_transactions::test_a_marker_that_a_client_makes_itself",
    ),
    33: ("test_produce::test_a_producer_without_sequence_or_a_transaction_without_producer",),
    34: ("test_produce::test_a_transactional_batch_without_transactional_id",),
    35: (
        "test_produce::test_a_compression_that_does_not_exist",
        "test_produce::test_zstd_in_a_version_that_has_none",
    ),
    36: (
        "test_produce::test_garbage_in_place_of_compressed_records",
        "test_produce::test_compressed_records_that_are_cut_off",
    ),
    37: (
        "test_produce::test_a_decompression_bomb",
        "test_produce::test_a_bomb_of_ten_gigabytes_costs_no_more_than_the_ceiling",
    ),
    38: ("test_produce::test_a_malformed_record",),
    39: ("test_produce::test_a_null_key_in_a_compacted_topic",),
    40: (
        "test_produce::test_a_timestamp_too_far_from_now",
        "test_produce::test_timestamps_at_the_ends_of_their_range",
    ),
    41: (
        "test_produce::test_a_batch_larger_than_max_message_bytes",
        "test_produce::test_a_batch_larger_than_a_segment",
        "test_produce::test_the_default_of_max_message_bytes",
    ),
    42: (
        "test_produce::test_a_gap_and_repeats_in_a_producers_sequence",
        "test_produce::test_a_sequence_that_wraps",
    ),
    43: ("test_produce::test_an_old_epoch_and_a_new_one_that_does_not_begin",),
    44: (
        "test_transactions::test_a_plain_write_of_a_producer_with_an_open_transaction",
        "test_transactions::test_a_write_to_a_partition_that_is_not_in_the_transaction",
        "test_transactions::test_a_transactional_write_of_nobody",
    ),
    45: ("test_produce::test_internal_topics_are_not_for_clients",),
    46: ("test_produce::test_a_partition_twice_in_one_request",),
    47: ("test_fetch::test_an_offset_outside_of_the_log",),
    48: (
        "test_fetch::test_size_limits_of_any_kind_give_at_least_one_batch",
        "test_fetch::test_an_answer_is_never_larger_than_fetch_max_bytes",
        "test_fetch::test_a_long_poll_ends_with_its_connection",
        "test_fetch::test_a_waiting_fetch_takes_no_memory_for_records",
    ),
    49: ("test_fetch::test_a_client_that_fetches_as_a_replica",),
    50: (
        "test_fetch::test_a_fetch_session_that_is_not_there",
        "test_fetch::test_a_wrong_epoch_of_a_fetch_session",
        "test_fetch::test_more_fetch_sessions_than_slots",
    ),
    51: (
        "test_fetch::test_a_topic_id_that_does_not_exist",
        "test_fetch::test_an_old_and_a_future_leader_epoch",
    ),
    52: (
        "test_fetch::test_an_isolation_level_that_does_not_exist",
        "test_fetch::test_a_fetch_by_a_replica_that_cannot_be_one",
        "test_fetch::test_list_offsets_with_values_that_mean_nothing",
        "test_fetch::test_questions_of_a_later_list_offsets",
    ),
    53: ("test_groups::test_a_join_that_cannot_be",),
    54: (
        "test_groups::test_a_join_that_cannot_be",
        "test_groups::test_a_join_with_another_protocol_than_the_groups",
        "test_groups::test_members_and_generations_that_are_not_the_groups",
        "test_groups::test_a_stolen_instance_id",
    ),
    55: ("test_groups::test_a_flood_of_joins_that_never_go_on",),
    56: ("test_groups::test_metadata_of_an_offset",),
    57: ("test_transactions::test_init_producer_id",),
    58: (
        "test_transactions::test_an_end_by_whom_the_transaction_does_not_belong_to",
        "test_transactions::test_an_end_of_what_is_not_open_or_ended_otherwise",
        "test_transactions::test_an_end_of_what_is_not_open_or_ended_otherwise_with_an_epoch_for_each",
        "test_transactions::test_requests_while_the_end_is_under_way",
    ),
    59: (
        "test_transactions::test_an_end_that_arrives_in_the_next_transaction",
        "test_transactions::test_a_late_end_is_known_after_the_coordinator_had_to_start_anew",
    ),
    60: ("test_transactions::test_a_bad_topic_among_the_partitions_to_add",),
    61: (
        "test_transactions::test_markers_of_a_coordinator_that_was_replaced",
        "test_transactions::test_markers_that_no_coordinator_can_mean",
    ),
    62: (
        "test_topics::test_a_name_that_no_topic_may_have",
        "test_topics::test_a_name_that_no_topic_may_have_is_not_created_by_asking",
        "test_topics::test_names_that_differ_only_in_dots_and_underscores",
    ),
    63: (
        "test_topics::test_a_topic_twice_in_one_request",
        "test_topics::test_a_number_of_partitions",
        "test_topics::test_a_replication_factor",
        "test_topics::test_an_assignment",
        "test_topics::test_a_setting",
    ),
    64: (
        "test_topics::test_deleting_records_that_are_not_there",
        "test_topics::test_a_topic_does_not_shrink_or_grow_beyond_measure",
        "test_topics::test_an_election_that_nobody_needs",
    ),
    65: (
        "test_topics::test_a_hundred_thousand_unknown_names",
        "test_topics::test_a_hundred_thousand_unknown_names_with_auto_creation",
    ),
    66: ("test_wire::test_telemetry_is_not_offered",),
    68: (
        "test_groups::test_an_expression_that_would_take_for_ever",
        "test_groups::test_an_expression_that_is_none",
    ),
    69: (
        "test_connections::test_more_connections_than_allowed",
        "test_connections::test_an_address_with_a_limit_of_its_own",
        "test_connections::test_more_connections_per_second_than_allowed",
        "test_connections::test_no_file_descriptors_left",
    ),
    70: (
        "test_disk::test_a_write_that_fails",
        "test_disk::test_a_sync_that_fails_takes_the_partition_offline",
        "test_disk::test_a_volume_that_fills_up_and_is_freed",
    ),
}

SECURITY = "security"

ROWS_LATER: dict[int, str] = {
    3: SECURITY,
    18: SECURITY,
    19: SECURITY,
    20: SECURITY,
    21: SECURITY,
    22: SECURITY,
    23: SECURITY,
    34: SECURITY,
    49: SECURITY,
    60: SECURITY,
    61: SECURITY,
    65: SECURITY,
    67: SECURITY,
}
"""The part of the work that each of these rows waits for. Of 60 and 61 it is the last column of the answer: a client
that is no broker gets 31 for AddPartitionsToTxn from version 4 on and for WriteTxnMarkers, once there are ACLs."""
