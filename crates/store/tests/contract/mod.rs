//! What every store does. Each function gets an empty one.

mod artifacts;
mod audit;
mod executions;
mod hostile;
mod keys;
mod sessions;

pub use artifacts::*;
pub use audit::*;
pub use executions::*;
pub use hostile::*;
pub use keys::*;
pub use sessions::*;

/// Makes each function of the contract a test of its own; `$with` gives one an empty store.
macro_rules! keep_the_contract {
    ($with:path) => {
        $crate::contract::keep_the_contract! { $with;
            a_record_comes_back_as_it_was_put
            a_second_put_takes_the_place_of_the_first
            ids_that_would_meet_when_joined_are_apart
            a_touch_sets_the_time_of_known_sessions
            removing_what_is_not_there_succeeds
            calls_at_the_same_time_all_succeed
            audit_records_come_back_whole_from_either_end
            audit_pages_have_each_record_once
            an_audit_filter_leaves_out_what_does_not_fit
            a_repeated_append_changes_nothing
            an_append_is_whole_or_not_at_all
            old_audit_records_are_forgotten_in_steps
            appends_at_the_same_time_lose_nothing
            a_name_of_a_run_is_taken_once
            of_many_claims_at_once_one_wins
            old_names_of_runs_are_free_again
            a_key_comes_back_as_it_was_kept
            a_key_is_revoked_once
            keys_are_listed_by_tenant_and_age
            a_key_id_is_kept_once
            artifacts_come_back_whole_newest_first
            artifacts_of_a_tenant_are_added_up
            old_artifacts_are_found_oldest_first
            artifacts_are_forgotten_by_id_and_by_session
            text_is_in_the_order_of_its_bytes
            hostile_text_comes_back
            nul_in_text_becomes_its_symbol
            numbers_beyond_the_columns_become_the_largest
            statements_in_values_stay_values
        }
    };
    ($with:path; $($name:ident)+) => {
        $(#[tokio::test]
        async fn $name() {
            let (store, _held) = $with().await;
            $crate::contract::$name(&store).await;
        })+
    };
}
pub(crate) use keep_the_contract;
