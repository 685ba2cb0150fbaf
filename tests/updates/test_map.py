"""Where each attack of the acceptance, and each kind of report of research/ota.md section 4, has its test.

An attack is a function of a table, `name: code`, or a test. What a row names is looked up in the files, so that
none is renamed or lost unnoticed.
"""

import ast
import functools

import pytest

from tests.conftest import REPOSITORY

TRUST = "tests/updates/trust"
ATTACKS: dict[str, tuple[str, ...]] = {
    "rollback": (
        f"{TRUST}/test_attacks.py::rollback_old_timestamp: METADATA_ROLLBACK",
        f"{TRUST}/test_attacks.py::rollback_old_models_by_stolen_online_keys: METADATA_ROLLBACK",
    ),
    "freeze": (
        f"{TRUST}/test_attacks.py::freeze_expired_timestamp: METADATA_EXPIRED",
        f"{TRUST}/test_attacks.py::freeze_inside_the_life_of_a_timestamp: METADATA_UNAVAILABLE",
    ),
    "mix-and-match": (
        f"{TRUST}/test_attacks.py::mix_and_match_old_models_under_a_new_snapshot: METADATA_INVALID",
        f"{TRUST}/test_attacks.py::mix_and_match_where_the_snapshot_lists_no_digest: METADATA_ROLLBACK",
    ),
    "fast-forward": (
        f"{TRUST}/test_attacks.py::fast_forward_of_the_timestamp: METADATA_ROLLBACK",
        f"{TRUST}/test_rotation.py::test_a_timestamp_put_far_ahead_is_healed_by_other_keys",
        f"{TRUST}/test_rotation.py::test_a_thief_of_the_director_spends_all_sequences",
    ),
    "endless data": (
        f"{TRUST}/test_attacks.py::endless_models: METADATA_INVALID",
        f"{TRUST}/test_http_fetch.py::test_a_server_that_is_not_well",
        "tests/updates/download/test_hostile_server.py::test_endless_body",
    ),
    "slow drip": (
        f"{TRUST}/test_http_fetch.py::test_a_server_that_is_not_well",
        "tests/updates/download/test_hostile_server.py::test_a_body_that_drips",
    ),
    "tampered target": (
        f"{TRUST}/test_attacks.py::tampered_target: TARGET_MISMATCH",
        "tests/updates/download/test_downloader.py::test_other_content_of_the_same_length",
    ),
    "wrong hardware": (f"{TRUST}/test_attacks.py::wrong_hardware: HARDWARE",),
    "one signature of two": (f"{TRUST}/test_attacks.py::one_signature_of_two_on_models: METADATA_INVALID",),
    "edited custom metadata with stolen online keys": (
        f"{TRUST}/test_attacks.py::edited_custom_metadata_with_stolen_online_keys: METADATA_INVALID",
    ),
    "stolen director key opening rings early": (f"{TRUST}/test_attacks.py::ring_opened_early: RING_CLOSED",),
    "stolen director key rolling back": (
        f"{TRUST}/test_attacks.py::rolled_back_by_a_stolen_director_key: ROLLBACK_NOT_PERMITTED",
        f"{TRUST}/test_attacks.py::rolled_back_by_way_of_another_name: COUNTER",
    ),
    "replayed assignment": (f"{TRUST}/test_attacks.py::replayed: STALE_SEQUENCE",),
    "cross-delivered assignment": (f"{TRUST}/test_attacks.py::delivered_to_another_device: WRONG_DEVICE",),
    "wrong key fingerprint": (f"{TRUST}/test_attacks.py::for_the_same_name_with_another_key: WRONG_KEY",),
    "clock at 1970": (f"{TRUST}/test_clock.py::test_in_1970_without_a_floor_nothing_is_judged",),
    "clock far in the future": (
        f"{TRUST}/test_clock.py::test_far_ahead_nothing_is_admitted_and_nothing_is_lost",
    ),
    "wiped cache": (
        f"{TRUST}/test_lasting.py::test_a_wiped_cache_takes_nothing_older",
        f"{TRUST}/test_lasting.py::test_a_wiped_cache_and_stolen_online_keys",
    ),
    "lost state file": (
        f"{TRUST}/test_lasting.py::test_a_lost_state_file",
        "tests/updates/process/test_kinds.py::test_11_a_journal_that_cannot_be_read_keeps_what_runs",
    ),
    "50 root rotations missed": (f"{TRUST}/test_rotation.py::test_fifty_rotations_were_missed",),
}

DEVICE = "tests/updates/process/test_kinds.py"
SERVED = "tests/fleet_server/cli/test_rollout_served.py"
SERVER = "tests/fleet_server/rollouts/test_report_kinds.py"
KINDS: dict[int, tuple[str, ...]] = {
    1: (
        f"{DEVICE}::test_1_every_state_has_an_end",
        f"{SERVER}::test_kind_1_a_device_that_never_comes_back_is_stuck_and_counts_as_bad",
    ),
    2: (
        f"{DEVICE}::test_2_healthy_is_said_after_probation_and_names_what_runs",
        f"{SERVER}::test_kind_2_a_later_report_with_another_hash_reopens_the_verdict",
    ),
    3: (f"{SERVER}::test_kind_3_a_pause_that_is_done_is_no_error",),
    4: (f"{SERVER}::test_kind_4_nobody_eligible_is_refused_with_counts_by_reason",),
    5: (
        f"{DEVICE}::test_5_hold_takes_back_what_is_not_yet_in_use",
        f"{SERVER}::test_kind_5_a_report_about_an_older_assignment_is_written_down_and_ignored",
    ),
    6: (
        f"{DEVICE}::test_6_what_nobody_has_ends_it_and_a_bad_road_is_waited_for",
        "tests/updates/download/test_downloader.py::test_kind_6_an_overloaded_server_is_left_alone",
    ),
    7: (
        "tests/updates/download/test_downloader.py::test_kind_7_progress_is_sampled",
        f"{SERVER}::test_kind_7_progress_costs_one_row_however_often_it_is_told",
    ),
    8: (f"{DEVICE}::test_8_a_release_that_failed_is_not_tried_again_by_itself",),
    9: (f"{DEVICE}::test_9_reports_wait_for_the_fleet_and_keep_nothing_back",),
    10: (f"{DEVICE}::test_10_a_later_assignment_need_not_wait",),
    11: (
        f"{DEVICE}::test_11_a_journal_that_cannot_be_read_keeps_what_runs",
        f"{DEVICE}::test_11_a_trial_that_nobody_remembers_is_taken_back",
    ),
    12: (
        f"{DEVICE}::test_12_the_same_assignment_again_is_one",
        f"{SERVER}::test_kind_12_the_same_report_again_changes_nothing_and_an_older_one_neither",
    ),
    13: (
        f"{DEVICE}::test_13_no_room_is_said_before_the_first_byte_and_tried_again",
        "tests/updates/download/test_small_disk.py::test_kind_13_full_before_the_first_byte",
    ),
    14: ("tests/updates/download/test_downloader.py::test_kind_14_a_delta_is_an_optimisation",),
    15: (
        f"{TRUST}/test_limits.py::test_a_year_away_stops_new_releases_alone",
        f"{TRUST}/test_limits.py::test_a_year_away_never_stops_what_is_newer",
        f"{TRUST}/test_http_fetch.py::test_a_certificate_that_is_not_valid_by_this_clock",
        f"{DEVICE}::test_what_waited_is_put_in_use_although_the_server_is_away_and_its_metadata_ended",
    ),
    16: (
        f"{DEVICE}::test_16_only_a_later_assignment_lifts_it",
        f"{SERVER}::test_kind_16_a_device_that_went_back_is_not_asked_again_by_the_same_rollout",
    ),
    17: (
        "tests/fleet_server/devices/test_enrolment.py::test_a_known_id_with_a_new_key_waits_and_the_old_one_goes_on",
        "tests/identity/test_enrol.py::test_a_pending_device_asks_again_with_the_same_key",
    ),
    18: (
        "tests/cli/test_enrol.py::test_another_fleet_needs_again",
        "tests/identity/test_enrol.py::test_a_key_that_the_server_put_out_is_replaced",
        "tests/fleet_server/devices/test_enrolment.py::test_an_expired_token_lets_no_new_key_in",
    ),
    19: (f"{SERVER}::test_kind_19_no_data_is_inconclusive_and_pauses",),
    20: (f"{SERVER}::test_kind_20_a_device_decommissioned_on_the_way_leaves_every_number",),
    21: (
        f"{SERVER}::test_kind_21_a_window_that_was_missed_comes_again_and_cancels_nothing",
        "tests/protocol/test_windows.py::test_the_nights_of_23_and_of_25_hours",
        "tests/protocol/test_windows.py::test_one_that_was_missed_waits_for_the_next",
    ),
    22: (
        f"{TRUST}/test_attacks.py::wrong_compute_capability: COMPUTE_CAPABILITY",
        f"{TRUST}/test_attacks.py::wrong_tensorrt: TENSORRT",
        "tests/engines/test_opening.py::test_the_key_follows_what_matters_and_nothing_else",
        "tests/engines/test_opening.py::test_an_engine_that_tensorrt_refuses_is_built_once_more",
    ),
    23: (
        f"{DEVICE}::test_23_an_end_never_stands_in_the_way_and_says_why",
        f"{SERVED}::test_a_release_goes_to_one_device_and_its_verdict_is_the_exit_code",
    ),
    24: (
        "tests/fleet_server/releases/test_packing.py::test_what_may_not_be_in_a_release",
        "tests/protocol/test_release_content.py::test_what_a_folder_may_offer",
    ),
    25: (f"{TRUST}/test_habits.py::test_tuf_is_used_by_its_public_names",),
    26: (
        f"{TRUST}/test_limits.py::test_offline_with_a_full_cache",
        f"{TRUST}/test_limits.py::test_a_year_away_never_stops_what_is_newer",
    ),
}


def test_all_kinds_of_reports_are_there() -> None:
    assert sorted(KINDS) == list(range(1, 27))


@pytest.mark.parametrize(
    "row",
    [row for rows in (*ATTACKS.values(), *KINDS.values()) for row in rows],
    ids=lambda row: row.split("::")[1],
)
def test_what_the_map_names_exists(row: str) -> None:
    place, _, code = row.partition(": ")
    path, name = place.split("::")
    found = functions(path)
    assert name in found, f"{path} has no {name}"
    if code:
        assert code in found[name], f"{name} is refused otherwise"
    else:
        assert name.startswith("test_")


@functools.cache
def functions(path: str) -> dict[str, frozenset[str]]:
    """Functions of a file, with the codes that their decorators name."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {
        node.name: frozenset(
            part.attr
            for one in node.decorator_list
            for part in ast.walk(one)
            if isinstance(part, ast.Attribute)
        )
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
