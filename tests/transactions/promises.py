"""What exactly-once takes, line by line, and the tests that hold each line.

The lines are those of the project's list of what must hold; `test_promises.py` sees to it that the tests exist. A test
is named by its file below `tests/` and its function. What is compared with Apache Kafka request by request is in
`conformance/wire/dialogues/` besides.
"""

from __future__ import annotations

PROMISES: dict[str, tuple[str, ...]] = {
    # -- delivery semantics ------------------------------------------------------------------------------------
    "at most once: acks=0 is not answered, acks=1 not waited for": (
        "bad_input/test_produce.py::test_an_error_with_acks_0_closes",
        "clients/test_kcat.py::test_files_come_back",
    ),
    "at least once: what was acked is there after a crash, and so are committed offsets": (
        "broker/log/test_crash.py::test_a_kill_at_every_call",
        "groups/test_restart.py::test_commit_that_was_acked_survives_every_crash",
    ),
    "exactly once": ("transactions/test_copying.py::test_a_copier_that_is_killed_again_and_again_copies_once_each",),
    # -- idempotent producer -----------------------------------------------------------------------------------
    "a producer id is given once, also across crashes": (
        "broker/metadata/test_producer_ids.py::test_a_new_allocator_never_reuses_a_block",
        "transactions/test_wire.py::test_producer_ids_are_not_used_again_after_a_kill",
    ),
    "the next sequence is accepted, a gap is not": (
        "broker/log/test_producer_state.py::test_the_next_sequence_is_accepted_and_a_gap_is_not",
        "broker/log/test_producer_state.py::test_no_history_has_a_duplicate_or_a_gap",
        "bad_input/test_produce.py::test_a_gap_and_repeats_in_a_producers_sequence",
    ),
    "one of the last five batches again gets its first offset": (
        "broker/log/test_producer_state.py::test_the_last_five_batches_again_get_their_offsets",
        "broker/log/test_log_writer.py::test_duplicates_append_nothing",
    ),
    "an older batch is a duplicate": (
        "broker/log/test_producer_state.py::test_an_old_sequence_is_only_called_a_duplicate_if_it_was_seen",
    ),
    "sequences wrap": (
        "broker/log/test_producer_state.py::test_sequences_wrap",
        "bad_input/test_produce.py::test_a_sequence_that_wraps",
    ),
    "a new epoch starts at 0, an older one is refused": (
        "broker/log/test_producer_state.py::test_epochs_fence",
        "bad_input/test_produce.py::test_an_old_epoch_and_a_new_one_that_does_not_begin",
    ),
    "the state survives restart and kill -9": (
        "broker/log/test_retry_window.py::test_the_last_five_batches_survive_a_restart",
        "broker/log/test_crash.py::test_a_power_cut_at_every_call",
    ),
    "the state survives segment deletion and compaction": (
        "broker/log/test_retry_window.py::test_sequences_go_on_after_the_records_were_deleted",
        "broker/log/test_compaction_properties.py::test_every_key_keeps_its_last_value",
    ),
    "the state survives a change of leader": ("broker/log/test_replication.py::test_a_follower_becomes_equal",),
    "the state expires only by producer.id.expiration.ms": (
        "broker/log/test_producer_state.py::test_expiry_goes_by_our_clock_and_spares_open_transactions",
    ),
    "an unknown producer may start at any sequence": (
        "broker/log/test_producer_state.py::test_an_unknown_producer_may_start_anywhere",
    ),
    # -- transactions ------------------------------------------------------------------------------------------
    "both generations at once, on the same topics": (
        "transactions/test_transactions.py::test_both_generations_share_a_topic",
    ),
    "transaction.version=2 is advertised": ("conformance/test_features.py::test_the_table_is_that_of_a_fresh_kafka",),
    "FindCoordinator of transactional ids, single and batched": (
        "transactions/test_wire.py::test_coordinators_of_transactional_ids_one_by_one_and_together",
    ),
    "InitProducerId bumps the epoch, and aborts what the predecessor left open first": (
        "broker/coordinator/test_transactions.py::test_every_further_init_bumps_the_epoch",
        "broker/coordinator/test_transactions.py::test_init_waits_until_what_its_predecessor_left_open_is_aborted",
        "transactions/test_transactions.py::test_a_second_producer_fences_the_first_and_aborts_what_it_left",
    ),
    "epochs that run out rotate the producer id": (
        "broker/coordinator/test_transaction_transitions.py::test_init_rotates_the_producer_id",
        "broker/coordinator/test_transaction_transitions.py::test_fencing_a_producer_with_the_last_epoch",
    ),
    "KIP-360: a client gives its id and epoch": (
        "broker/coordinator/test_transactions.py::test_init_with_the_present_identity_bumps_and_its_retry_gets_the_same",
        "broker/coordinator/test_transactions.py::test_init_with_an_old_identity_is_fenced_and_disturbs_nobody",
    ),
    "AddPartitionsToTxn, and the verification between brokers": (
        "broker/coordinator/test_transactions.py::test_first_partitions_begin_the_transaction_and_its_clock",
        "transactions/test_wire.py::test_brokers_verify_and_add_partitions",
        "bad_input/test_transactions.py::test_a_bad_topic_among_the_partitions_to_add",
    ),
    "partitions are added by Produce, and the epoch is bumped at every end, in version 2": (
        "broker/coordinator/test_transactions.py::test_version_2_gets_its_next_epoch_with_the_end",
        "transactions/test_transactions.py::test_what_is_committed_is_visible_when_commit_returns",
    ),
    "offsets are part of the transaction": (
        "transactions/test_transactions.py::test_offsets_in_a_transaction_share_its_fate",
        "broker/coordinator/test_offsets.py::test_transactional_offsets_are_pending_until_the_marker",
    ),
    "KIP-447: who lost its partitions commits no offsets, in both kinds of groups": (
        "transactions/test_transactions.py::test_a_consumer_that_lost_its_partitions_commits_no_offsets",
    ),
    "a late Produce cannot hang a transaction": (
        "transactions/test_transactions.py::test_what_belongs_to_no_transaction_is_refused_and_hangs_nothing",
        "bad_input/test_transactions.py::test_a_write_to_a_partition_that_is_not_in_the_transaction",
    ),
    "EndTxn is idempotent": (
        "broker/coordinator/test_transaction_ends.py::test_version_0",
        "broker/coordinator/test_transaction_ends.py::test_version_2",
        "bad_input/test_transactions.py::test_an_end_of_what_is_not_open_or_ended_otherwise",
    ),
    "commit means visible": (
        "broker/txn/test_markers.py::test_an_end_is_answered_when_every_partition_has_its_marker",
        "transactions/test_transactions.py::test_what_is_committed_is_visible_when_commit_returns",
    ),
    "KAFKA-17754: a delayed EndTxn ends only its own transaction": (
        "transactions/test_late_end.py::test_no_transaction_is_ended_by_the_end_of_another",
        "bad_input/test_transactions.py::test_an_end_that_arrives_in_the_next_transaction",
        "bad_input/test_transactions.py::test_a_late_end_is_known_after_the_coordinator_had_to_start_anew",
    ),
    "a timeout aborts with a bumped epoch, and the client recovers (KIP-588)": (
        "broker/coordinator/test_transactions.py::test_an_open_transaction_is_aborted_with_a_new_epoch_at_its_timeout",
        "broker/coordinator/test_transactions.py::test_a_version_1_producer_recovers_from_the_timeout",
        "transactions/test_transactions.py::test_kafkas_own_producer_recovers_from_the_timeout",
    ),
    "transactional ids expire with tombstones": (
        "broker/coordinator/test_transactions.py::test_idle_ids_expire_with_a_tombstone",
    ),
    "error codes by version": (
        "transactions/test_wire.py::test_a_fenced_producer_is_told_so_in_the_words_of_its_version",
        "transactions/test_wire.py::test_old_clients_do_not_hear_that_a_coordinator_loads",
        "bad_input/test_transactions.py::test_an_end_by_whom_the_transaction_does_not_belong_to",
    ),
    "restart at any point: killed at every write": (
        "transactions/test_crash.py::test_a_crash_at_every_call_to_the_disk",
        "transactions/test_strace.py::test_killed_at_a_system_call",
    ),
    # -- reading -----------------------------------------------------------------------------------------------
    "each isolation level sees what it must": (
        "broker/log/test_isolation_properties.py::test_each_isolation_level_sees_what_it_must",
        "transactions/test_transactions.py::test_what_is_aborted_is_seen_by_read_uncommitted_only",
        "transactions/test_transactions.py::test_an_open_transaction_holds_back_what_came_after_it",
    ),
    "the aborted list is sorted and complete, also for a fetch that waited; control batches are returned": (
        "transactions/test_wire.py::test_the_aborted_list_of_a_fetch",
        "transactions/test_wire.py::test_a_fetch_that_waited_has_the_aborted_list_too",
    ),
    "a fetch in the middle of a batch returns the whole batch": (
        "broker/log/test_log_reader.py::test_mid_batch_gives_the_whole_batch",
    ),
    "ListOffsets honours isolation level, timestamps and -1 to -5": (
        "transactions/test_wire.py::test_list_offsets_by_isolation_level_and_by_every_meaning",
    ),
    # -- bugs that other brokers had ---------------------------------------------------------------------------
    "bug: LSO off by one": (
        "broker/log/test_isolation_properties.py::test_each_isolation_level_sees_what_it_must",
        "broker/log/test_producer_state.py::test_first_unstable_offset",
    ),
    "bug: aborted list empty or unsorted": ("transactions/test_wire.py::test_the_aborted_list_of_a_fetch",),
    "bug: aborted data visible after a restart from snapshot": (
        "broker/log/test_isolation_properties.py::test_each_isolation_level_sees_what_it_must",
        "broker/log/test_crash.py::test_a_kill_at_every_call",
    ),
    "bug: open producer without data lost from a snapshot": (
        "broker/log/test_producer_snapshot.py::test_a_producer_without_data_keeps_its_open_transaction",
        "broker/log/test_recovery.py::test_an_open_transaction_survives_deletion_of_its_records",
    ),
    "bug: LSO pinned for ever after PREPARE and restart": (
        "broker/coordinator/test_transactions.py::test_after_a_restart_what_was_decided_is_done",
        "transactions/test_crash.py::test_a_crash_at_every_call_to_the_disk",
    ),
    "bug: UNSTABLE_OFFSET_COMMIT for ever": (
        "broker/coordinator/test_offsets.py::test_aborted_offsets_are_gone",
        "transactions/test_crash.py::test_a_crash_at_every_call_to_the_disk",
    ),
    "bug: sequence state lost on idle or restart": (
        "broker/log/test_producer_state.py::test_expiry_goes_by_our_clock_and_spares_open_transactions",
        "broker/log/test_retry_window.py::test_the_last_five_batches_survive_a_restart",
    ),
    "bug: fencing checked after verification": (
        "broker/log/test_producer_state.py::test_a_zombie_is_fenced_and_not_told_to_retry",
        "transactions/test_wire.py::test_a_fenced_producer_is_told_so_in_the_words_of_its_version",
    ),
    "bug: version 2 epoch overflow": (
        "broker/coordinator/test_transaction_transitions.py::test_version_2_goes_on_with_a_new_id_after_its_last_end",
    ),
    "bug: EndTxn retry told rejected though committed": (
        "bad_input/test_transactions.py::test_an_end_of_what_is_not_open_or_ended_otherwise_with_an_epoch_for_each",
        "transactions/test_crash.py::test_a_crash_at_every_call_to_the_disk",
    ),
    "bug: read_uncommitted given an aborted list": ("transactions/test_wire.py::test_the_aborted_list_of_a_fetch",),
    "bug: empty transactions in the txn index": (
        "broker/log/test_producer_state.py::test_a_marker_without_data_ends_nothing",
        "transactions/test_wire.py::test_the_aborted_list_of_a_fetch",
    ),
    "bug: lag that never reaches 0 because of markers": (
        "cli/test_groups.py::test_the_lag_is_not_distorted_by_markers",
    ),
    "bug: keyless record accepted on a compacted topic": (
        "bad_input/test_produce.py::test_a_null_key_in_a_compacted_topic",
    ),
    "bug: second consumer never gets partitions": (
        "groups/test_membership.py::test_members_come_and_go",
        "groups/test_consumer_protocol.py::test_members_come_and_go",
    ),
    "bug: CreatePartitions with an empty answer": (
        "bad_input/test_topics.py::test_a_topic_does_not_shrink_or_grow_beyond_measure",
    ),
    "bug: DescribeConfigs without the defaults": (
        "broker/handlers/test_describe_configs.py::test_everything_is_listed",
        "conformance/test_configs_against_kafka.py::test_defaults_of_a_broker",
    ),
    "bug: transaction.timeout.ms above the maximum accepted": (
        "broker/coordinator/test_transactions.py::test_init_with_a_timeout_out_of_range_is_refused",
        "bad_input/test_transactions.py::test_init_producer_id",
    ),
    # -- end to end --------------------------------------------------------------------------------------------
    "consume-transform-produce of every client, killed at random": (
        "transactions/test_copying.py::test_a_copier_that_is_killed_again_and_again_copies_once_each",
    ),
    "Kafka Streams with exactly_once_v2, unchanged": (
        "transactions/test_streams.py::test_counts_are_exact_while_program_and_broker_are_killed_in_turn",
    ),
    "Spark: one micro-batch is one transaction": (
        "spark/test_sink.py::test_a_batch_becomes_visible_and_its_repetition_is_skipped",
    ),
}
