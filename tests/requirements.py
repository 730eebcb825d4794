"""What `MiniApp SDK v1` promises, section by section of seed 000, and which tests hold it to its word.

Left out is only what names another stack (Tauri, npm, iframes) or says what is not to be built (section 7).
`tests/test_requirements.py` fails if a promise has no test, or names one that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Requirement:
    """One promise."""

    id: str
    section: str
    """Of seed 000."""
    sentence: str
    tests: tuple[str, ...]
    """`path below tests/ :: name of the test`, without its `test_`."""


def _r(name: str, sentence: str, *tests: str) -> Requirement:
    return Requirement(name, name.split("-", maxsplit=1)[0], sentence, tests)


REQUIREMENTS: Final = (
    _r(
        "1-1",
        "The runtime hosts the system MiniApp and the restricted reference MiniApps with one SDK.",
        "simulator/test_crashes.py::the_demo_tells_its_story_with_all_three_apps",
    ),
    _r(
        "2.3-1",
        "Reading and acknowledging one's own inbox is open to every MiniApp.",
        "worker/test_messages.py::calls_and_texts_from_before_a_subscription_go_to_the_first_one_in_order",
        "commands/test_reports.py::an_instance_reaches_only_its_own_inbox",
    ),
    _r(
        "2.3-2",
        "Transport, store and agents are out of every MiniApp's reach.",
        "hostile/test_reaching.py::no_file_is_read_that_is_not_its_own_and_none_is_written",
        "hostile/test_reaching.py::no_socket_is_opened_and_no_door_is_found",
    ),
    _r(
        "2.3-3",
        "No MiniApp reaches the network or the host's processes.",
        "isolation/test_matrix.py::a_sealed_worker_is_refused_everywhere_in_the_same_way",
        "hostile/test_reaching.py::no_process_is_started_and_nobody_elses_is_touched",
    ),
    _r(
        "2.3-4",
        "No MiniApp changes focus, registry or another MiniApp's data.",
        "hostile/test_identity.py::it_can_name_nobody_else_in_a_frame",
        "commands/test_foreign_instances.py::a_word_about_the_call_of_another_instance_is_refused_and_changes_nothing",
    ),
    _r(
        "3-1",
        "Everything an app writes through the SDK is a request; the runtime decides and answers.",
        "worker/test_requests.py::receipts_in_another_order_reach_those_who_asked",
        "hostile/test_identity.py::a_word_that_is_not_its_to_say_changes_nothing",
    ),
    _r(
        "3-2",
        "The context is written by the runtime, always current and read-only.",
        "worker/test_messages.py::an_app_reads_its_context_live_and_cannot_write_it",
    ),
    _r(
        "3-3",
        "An app cannot hand in or forge app_scope, instance_id or conversation_id.",
        "hostile/test_identity.py::it_can_name_nobody_else_in_a_frame",
    ),
    _r(
        "3-4",
        "No user, agent, token or endpoint reaches a MiniApp.",
        "worker/test_messages.py::an_app_reads_its_context_live_and_cannot_write_it",
        "hostile/test_reaching.py::no_file_is_read_that_is_not_its_own_and_none_is_written",
    ),
    _r(
        "3.1-1",
        "`list` gives what is not acknowledged, after a message if one is named.",
        "worker/test_requests.py::the_inbox_is_listed_page_by_page",
    ),
    _r(
        "3.1-2",
        "`subscribe` delivers this instance's messages and can be ended.",
        "worker/test_messages.py::an_unsubscribed_listener_hears_nothing_more",
    ),
    _r(
        "3.1-3",
        "A message is checked, deduplicated and stored before it is delivered.",
        "commands/test_texts.py::a_repeated_text_is_taken_once",
        "commands/test_admit.py::an_admitted_call_waits_for_its_app_with_one_message_and_an_instance",
    ),
    _r(
        "3.1-4",
        "After an ACK the message is gone.",
        "commands/test_reports.py::an_acknowledged_message_is_gone_and_its_call_is_running",
        "e2e/test_recovery.py::acknowledged_messages_do_not_come_back",
    ),
    _r(
        "3.1-5",
        "Backgrounding, reload, disconnection and restart lose no message without ACK.",
        "commands/test_attempts.py::a_new_attempt_is_given_the_open_calls_again_in_the_order_of_their_admission",
        "commands/test_texts.py::a_text_waits_for_the_scopes_next_instance",
    ),
    _r(
        "3.1-6",
        "Only deliveries of one's own scope, conversation and instance can be listed and acknowledged.",
        "commands/test_reports.py::an_instance_reaches_only_its_own_inbox",
    ),
    _r(
        "3.2-1",
        "`subscribe` and `get` give an app its calls, and only its own.",
        "commands/test_attempts.py::an_instance_reads_its_own_calls_only",
        "commands/test_foreign_instances.py::the_call_of_another_instance_cannot_be_looked_at",
    ),
    _r(
        "3.2-2",
        "Every call has a durable record with the fields of the seed.",
        "commands/test_admit.py::an_admitted_call_waits_for_its_app_with_one_message_and_an_instance",
        "contract/test_golden.py::every_message_type_has_an_accepted_example_with_each_of_its_fields",
    ),
    _r(
        "3.2-3",
        "The statuses are the ten of the seed, and each change is a cell of one table.",
        "rules/test_calls.py::a_call_in_a_status_takes_an_event_as_its_cell_says",
        "rules/test_calls.py::the_final_statuses_are_the_five_of_the_seed",
    ),
    _r(
        "3.2-4",
        "`reportProgress` is kept and passed on.",
        "commands/test_reports.py::progress_takes_a_call_over_without_ending_its_message",
        "commands/test_reports.py::newer_progress_replaces_what_was_not_acknowledged",
    ),
    _r(
        "3.2-5",
        "A final word is taken only for a call of this instance.",
        "commands/test_reports.py::another_instances_call_is_not_found",
    ),
    _r(
        "3.2-6",
        "A final word is taken only in a status that allows it.",
        "commands/test_call_operations.py::an_operation_on_a_call_in_a_status_answers_as_its_cell_says",
    ),
    _r(
        "3.2-7",
        "A result must fit the output schema.",
        "commands/test_reports.py::an_invalid_result_leaves_the_call_running_and_the_third_ends_it",
    ),
    _r(
        "3.2-8",
        "A second final word is refused.",
        "commands/test_reports.py::another_last_word_is_refused",
        "e2e/test_bad_apps.py::the_same_final_word_again_is_accepted_and_every_other_is_refused",
    ),
    _r(
        "3.2-9",
        "A final word is refused when app or tool is switched off.",
        "commands/test_reports.py::a_report_that_meets_its_switched_off_tool_finds_the_call_ended",
        "e2e/test_bad_input.py::a_running_call_of_what_is_switched_off_ends_and_the_app_can_say_nothing_more",
    ),
    _r(
        "3.2-10",
        "Record, audit and outbox are written before the agent hears of it.",
        "store/test_groups.py::outcomes_are_told_after_the_commit_and_the_side_file",
        "commands/test_reports.py::a_result_ends_the_call_its_message_and_posts_one_delivery",
    ),
    _r(
        "3.3-1",
        "`requestForeground`, `requestBackground` and `requestClose` are requests, answered with a receipt.",
        "worker/test_lifecycle.py::each_wish_is_a_request_and_its_receipt_is_the_apps",
    ),
    _r(
        "3.3-2",
        "A close is refused with a stable code while calls or surfaces of the instance are open.",
        "commands/test_lifecycle.py::an_app_with_an_open_call_does_not_close",
        "commands/test_lifecycle.py::an_app_with_an_open_surface_does_not_close",
    ),
    _r(
        "3.3-3",
        "Policy can refuse a wish about the lifecycle.",
        "commands/test_lifecycle.py::policy_refuses_what_it_does_not_allow",
    ),
    _r(
        "3.3-4",
        "After a close the focus stack is adjusted and the one before is in front again.",
        "commands/test_lifecycle.py::an_app_closes_itself_and_its_end_is_no_crash",
        "commands/test_lifecycle.py::the_end_of_a_launch_gives_the_front_back_to_chat_and_the_others_stay_behind",
    ),
    _r(
        "3.3-5",
        "An app mounts nobody else and cannot change the focus by itself.",
        "commands/test_lifecycle.py::an_app_comes_to_the_front_of_chat_but_not_of_another_app",
    ),
    _r(
        "3.4-1",
        "The owner of an interaction is written by the runtime; a request has no field for it.",
        "commands/test_interactions.py::no_request_can_name_an_owner",
        "e2e/test_interactions.py::an_owner_cannot_be_forged",
        "commands/test_surfaces.py::a_question_belongs_to_the_surface_of_its_call_or_to_the_only_one",
    ),
    _r(
        "3.4-2",
        "`parent_call_id` must be an open call of this instance.",
        "commands/test_interactions.py::a_request_is_refused_by_the_first_thing_that_fails",
    ),
    _r(
        "3.4-3",
        "`request`, `get`, `subscribe` and `cancel` work as typed.",
        "worker/test_questions.py::who_asks_waits_for_the_end_and_takes_it_over",
        "commands/test_interactions.py::an_app_takes_a_question_back_once",
        "commands/test_interactions.py::a_list_holds_the_open_ones_and_goes_on_behind_one_of_them",
    ),
    _r(
        "3.4-4",
        "`notice` is shown, and acknowledged or read-only.",
        "rules/test_interactions.py::an_answer_that_fits_gives_its_result",
        "e2e/test_interactions.py::a_notice_without_a_label_ends_when_it_is_shown",
    ),
    _r(
        "3.4-5",
        "`choice` is answered with ordered action ids without repetition.",
        "rules/test_interactions.py::whatever_is_chosen_a_result_is_in_the_order_of_the_actions",
    ),
    _r(
        "3.4-6",
        "`confirm` is answered with `approved`.",
        "rules/test_interactions.py::an_answer_that_fits_gives_its_result",
    ),
    _r(
        "3.4-7",
        "`input` is answered with values by field id within the declared limits.",
        "rules/test_interactions.py::whatever_is_written_a_result_holds_what_the_fields_allow",
    ),
    _r(
        "3.4-8",
        "`presentation` is a wish that focus and policy may lower or refuse.",
        "rules/test_interactions.py::a_question_is_placed_by_the_first_thing_that_holds",
        "commands/test_permissions.py::policy_lowers_or_refuses_a_presentation",
    ),
    _r(
        "3.4-9",
        "A question of an agent is shown by Interact, with owner `chat` and source `agent_tool`.",
        "commands/test_interactions.py::a_question_of_an_agent_is_made_with_its_call",
    ),
    _r(
        "3.4-10",
        "A question of an app in front is shown in its own container.",
        "rules/test_interactions.py::a_question_is_placed_by_the_first_thing_that_holds",
    ),
    _r(
        "3.4-11",
        "A result is stored and goes only to its owner.",
        "commands/test_interactions.py::the_result_of_an_agents_question_goes_to_interact_and_to_nobody_else",
        "commands/test_interactions.py::an_answer_its_result_and_its_withdrawal_are_one_change",
    ),
    _r(
        "3.4-12",
        "The old form `lineup.v1.tool.call` (choice, confirm, input) still works.",
        "contract/test_golden.py::a_story_goes_at_the_runtime_as_it_is_written",
        "e2e/test_interactions.py::an_agents_question_comes_back_as_the_result_of_its_call",
    ),
    _r(
        "3.4-13",
        "No app queries, answers or cancels another owner's question.",
        "commands/test_interactions.py::another_instance_neither_sees_nor_cancels_a_question",
    ),
    _r(
        "3.4-14",
        "Interact cannot send a result to the agent past the runtime.",
        "miniapps/test_chat.py::the_end_of_an_agents_question_ends_its_call",
    ),
    _r(
        "3.4-15",
        "Questions of agents and of apps share record, states, storage, expiry and routing.",
        "commands/test_interactions.py::a_question_of_an_agent_is_made_with_its_call",
        "e2e/test_interactions.py::an_agents_question_outlives_interact_and_the_daemon",
    ),
    _r(
        "3.4-16",
        "The states are those of the seed, and a final one takes no event.",
        "rules/test_interactions.py::a_question_in_a_status_takes_an_event_as_its_cell_says",
        "rules/test_interactions.py::no_sequence_of_events_leaves_a_final_status",
    ),
    _r(
        "3.4-17",
        "Open questions and drafts of `input` survive reload, disconnection and restart.",
        "e2e/test_interactions.py::a_daemon_that_is_killed_loses_no_question_no_draft_and_no_answer",
    ),
    _r(
        "3.4-18",
        "A question ends at its `expires_at`.",
        "e2e/test_interactions.py::a_question_expires_when_its_time_has_come",
        "e2e/test_interactions.py::a_question_expires_also_while_no_daemon_runs",
    ),
    _r(
        "3.5-1",
        "`requestOpen`, `update` and `requestClose` of a surface are requests that the runtime decides.",
        "commands/test_surfaces.py::a_surface_is_opened_and_hosts_are_told",
        "commands/test_surfaces.py::a_state_that_is_too_much_is_refused",
    ),
    _r(
        "3.5-2",
        "A capability is decided by manifest, state, policy and the person.",
        "commands/test_capabilities.py::what_the_manifest_does_not_declare_is_denied_whatever_policy_says",
        "e2e/test_permissions.py::a_call_waits_for_a_persons_yes_also_over_the_death_of_the_daemon_and_then_runs",
    ),
    _r(
        "3.5-3",
        "The closed list is never granted, whatever policy says.",
        "commands/test_capabilities.py::what_is_on_the_closed_list_is_never_granted_whatever_policy_says",
    ),
    _r(
        "3.5-4",
        "Requests for capabilities and their refusals are audited.",
        "commands/test_capabilities.py::without_a_rule_a_capability_is_denied_and_nothing_but_the_audit_entry_is_left",
    ),
    _r(
        "4.1-1",
        "Manifest v1 holds exactly the fields of the seed, and is checked at registration.",
        "contract/test_golden.py::a_manifest_is_registered_or_refused_at_this_path",
        "rules/test_registration.py::a_manifest_is_refused_with_the_place_of_each_fault",
    ),
    _r(
        "4.1-2",
        "An app cannot extend tools, subscriptions or permissions while it runs.",
        "hostile/test_identity.py::a_word_that_is_not_its_to_say_changes_nothing",
    ),
    _r(
        "4.1-3",
        "Only the packaged system app may be `kind: system`.",
        "rules/test_registration.py::only_the_packaged_chat_may_be_system",
    ),
    _r(
        "4.2-1",
        "A tool has a stable id, version, handling, target, schemas, permissions and a timeout.",
        "rules/test_registration.py::a_manifest_that_holds_is_registered_with_compiled_schemas",
        "contract/test_golden.py::a_manifest_is_registered_or_refused_at_this_path",
    ),
    _r(
        "4.2-2",
        "The schema subset is exactly that of the seed.",
        "contract/test_json_schema.py::a_case_of_the_published_suite_agrees_or_is_refused_at_registration",
        "contract/test_json_schema.py::every_schema_of_the_subset_means_what_jsonschema_says",
    ),
    _r(
        "4.2-3",
        "References, patterns, URLs, scripts and unknown keywords are refused.",
        "contract/test_json_schema.py::what_is_outside_the_subset_is_refused_with_the_path_to_it",
    ),
    _r(
        "4.3-1",
        "The inventory has a revision that changes with what agents can see.",
        "rules/test_inventory.py::a_change_of_what_agents_see_of_a_tool_is_a_new_revision",
        "rules/test_inventory.py::what_agents_do_not_see_changes_no_revision",
        "rules/test_inventory.py::a_revision_names_what_is_seen_whatever_policy_and_switches_made_it",
    ),
    _r(
        "4.3-2",
        "A call with another revision is refused, not delivered, and told the current one.",
        "rules/test_admission.py::a_stale_invocation_is_told_the_current_revision",
    ),
    _r(
        "4.3-3",
        "The inventory is sent as `lineup.v1.client.inventory`.",
        "commands/test_switches.py::agents_are_told_the_new_inventory",
    ),
    _r(
        "4.4-1",
        "A call climbs the whole ladder before it is recorded.",
        "commands/test_admit.py::the_first_rung_that_fails_answers",
        "rules/test_admission.py::of_several_faults_the_first_rung_answers",
    ),
    _r(
        "4.4-2",
        "Handling `launch` makes or reuses the instance and puts it in front.",
        "commands/test_admit.py::the_first_call_opens_the_conversation_and_the_next_one_uses_its_instance",
    ),
    _r(
        "4.4-3",
        "Handling `operation` needs an instance.",
        "commands/test_admit.py::an_operation_needs_an_open_instance_of_this_conversation",
    ),
    _r(
        "4.4-4",
        "`notice`, `choice`, `confirm` and `input` are `interactive` calls with one kind of record.",
        "commands/test_interactions.py::a_question_of_an_agent_is_made_with_its_call",
    ),
    _r(
        "4.4-5",
        "Each refusal has its stable code.",
        "rules/test_admission.py::each_fault_alone_has_its_code",
        "contract/test_golden.py::a_refusal_in_the_files_is_a_code_of_the_contract",
    ),
    _r(
        "5.1-1",
        "Interact subscribes, recovers and acknowledges through `sdk.inbox` alone.",
        "miniapps/test_chat.py::the_end_of_an_agents_question_ends_its_call",
    ),
    _r(
        "5.1-2",
        "`conversation.sendText` is a system extension that goes through Runtime Action and outbox.",
        "miniapps/test_chat.py::what_the_person_wrote_goes_to_the_agent_once_for_its_action",
        "commands/test_actions.py::a_text_is_sent_once_for_its_action_however_often_chat_says_so",
    ),
    _r(
        "5.1-3",
        "Interact ends agent questions by `sdk.tools.complete`, `fail` or `cancel`.",
        "miniapps/test_chat.py::the_end_of_an_agents_question_ends_its_call",
    ),
    _r(
        "5.1-4",
        "`context.mode` is `im`; audio and video are declared, refused and restored as `im`.",
        "miniapps/test_chat.py::another_mode_is_declared_and_refused",
    ),
    _r(
        "5.1-5",
        "Covered, Interact is in the background or suspended, and cannot take the front itself.",
        "commands/test_suspension.py::covered_chat_sleeps_and_wakes_when_it_comes_to_the_front",
        "rules/test_lifecycle.py::the_front_is_refused_over_another_app_for_chat_that_is_covered_and_after_a_person_sent_it_away",
    ),
    _r(
        "5.2-1",
        "`task-dashboard.open` is a launch that ends completed, cancelled or failed.",
        "miniapps/test_task_dashboard.py::a_task_is_opened_updated_and_ended",
    ),
    _r(
        "5.2-2",
        "`task-dashboard.update` is an operation that answers with the task.",
        "miniapps/test_task_dashboard.py::an_update_changes_what_it_names",
    ),
    _r(
        "5.2-3",
        "The dashboard reports progress, result and error, and the runtime closes it and restores Interact.",
        "simulator/test_crashes.py::the_demo_tells_its_story_with_all_three_apps",
    ),
    _r(
        "5.2-4",
        "The dashboard asks before unfinished work is closed, and for a missing description, in its container.",
        "miniapps/test_task_dashboard.py::unfinished_work_is_closed_only_if_the_person_means_it",
        "miniapps/test_task_dashboard.py::a_missing_description_is_asked_for_once",
    ),
    _r(
        "5.2-5",
        "What it knows it has from tools and inbox.",
        "miniapps/test_task_dashboard.py::after_a_restart_it_goes_on_from_the_progress_of_the_open_call",
    ),
    _r(
        "5.3-1",
        "`whiteboard.open` is a launch that opens a restricted surface.",
        "e2e/test_whiteboard.py::a_person_draws_and_the_agent_gets_the_picture",
        "e2e/test_whiteboard.py::without_a_host_that_can_draw_the_board_is_refused",
    ),
    _r(
        "5.3-2",
        "`whiteboard.submit` is an operation that answers with an artifact or a summary.",
        "e2e/test_whiteboard.py::a_person_draws_and_the_agent_gets_the_picture",
    ),
    _r(
        "5.3-3",
        "The board changes by checked patches only, through the bridge or the app.",
        "commands/test_surfaces.py::a_state_is_the_fold_of_its_patches_in_order_of_revision",
        "e2e/test_whiteboard.py::what_no_board_may_hold_is_taken_away_again",
    ),
    _r(
        "5.3-4",
        "Artifact metadata is checked and stored.",
        "commands/test_artifacts.py::content_with_another_digest_is_forgotten_and_the_refusal_is_repeated",
        "e2e/test_whiteboard.py::the_command_writes_the_file_whole_or_not_at_all",
    ),
    _r(
        "5.3-5",
        "A surface cannot read the host, tokens or other apps.",
        "commands/test_surfaces.py::what_a_bridge_may_not_ask_is_refused",
        "commands/test_surfaces.py::another_instances_surface_is_not_found",
    ),
    _r(
        "5.3-6",
        "Drawing never becomes a standard interaction.",
        "miniapps/test_whiteboard.py::drawing_asks_nobody_anything",
    ),
    _r(
        "8.1-1",
        "There are golden fixtures for legal, repeated, stale, invalid, foreign and final.",
        "contract/test_golden.py::a_story_goes_at_the_runtime_as_it_is_written",
    ),
    _r(
        "8.1-2",
        "There are fixtures for notice, owner injection, questions of apps, cancel, timeout and restart.",
        "contract/test_golden.py::a_story_goes_at_the_runtime_as_it_is_written",
    ),
    _r(
        "9-1",
        "Context is injected, cannot be forged and is limited.",
        "worker/test_messages.py::an_app_reads_its_context_live_and_cannot_write_it",
    ),
    _r(
        "9-2",
        "The three apps use the SDK alone.",
        "hostile/test_reaching.py::no_socket_is_opened_and_no_door_is_found",
    ),
    _r(
        "9-5",
        "What is refused reaches neither MiniApp nor host.",
        "commands/test_admit.py::a_refused_call_id_stays_free",
        "rules/test_admission.py::each_fault_alone_has_its_code",
    ),
    _r(
        "9-6",
        "Interact completes, recovers and echoes all four kinds.",
        "e2e/test_interactions.py::an_agents_question_outlives_interact_and_the_daemon",
        "miniapps/test_chat.py::an_answer_is_echoed_in_the_words_of_the_question",
    ),
    _r(
        "9-7",
        "Owners are injected, parents checked, results go back to the owner only.",
        "commands/test_interactions.py::no_request_can_name_an_owner",
        "commands/test_interactions.py::the_result_of_an_agents_question_goes_to_interact_and_to_nobody_else",
    ),
    _r(
        "9-8",
        "Task Dashboard: launch, front, progress, question without a change of focus, result, close.",
        "simulator/test_crashes.py::the_demo_tells_its_story_with_all_three_apps",
    ),
    _r(
        "9-9",
        "Whiteboard: surface, patch, submit, close; nothing of the host is reachable.",
        "e2e/test_whiteboard.py::a_person_draws_and_the_agent_gets_the_picture",
        "miniapps/test_whiteboard.py::drawing_asks_nobody_anything",
    ),
    _r(
        "9-10",
        "Progress, result and error are checked, stored and audited before an agent hears of them.",
        "commands/test_reports.py::a_result_ends_the_call_its_message_and_posts_one_delivery",
        "commands/test_reports.py::the_log_holds_the_digest_of_progress_and_not_its_words",
    ),
    _r(
        "9-11",
        "Everything open is restored within bounds; interrupted work is never reported as done.",
        "commands/test_recovery.py::a_running_call_waits_again_and_the_daemons_death_counts_for_nothing",
        "commands/test_recovery.py::the_focus_survives",
    ),
    _r(
        "9-13",
        "What worked before still works.",
        "e2e/test_recovery.py::progress_made_before_the_kill_is_there_after_it",
    ),
)


def main() -> None:
    """Say how many promises there are, and of which sections."""
    tests = {test for promise in REQUIREMENTS for test in promise.tests}
    print(f"{len(REQUIREMENTS)} promises of seed 000, each with a test; {len(tests)} tests hold them")  # noqa: T201


if __name__ == "__main__":
    main()
