//! The columns of a dataset that its plan fixes before the first row is computed.

use serde_json::{Map, Value};

use crate::Result;
use crate::dataset::plan::{Feature, Plan};
use crate::dataset::store::{Layout, Store};
use crate::dataset::{mel, tokens};

/// Returns the header of the dataset that `plan` describes, for one of several shards.
pub(super) fn layout(plan: &Plan, (shard, n_shards): (usize, usize)) -> Layout {
    let (columns, attributes) = match &plan.feature {
        Feature::Mel(options) => mel::layout::describe(options, plan),
        Feature::Tokens(tokens) => tokens::layout::describe(tokens, plan),
    };
    let shard = (n_shards > 1).then(|| ("shard", Value::from(format!("{}/{n_shards}", shard + 1))));
    let mut attributes: Vec<(&str, Value)> = attributes.into_iter().chain(shard).collect();
    attributes.sort_by_key(|(name, _)| *name);
    let attributes: Map<String, Value> = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Layout { n_rows: plan.rows.len() as u64, columns, attributes }
}

/// Writes the columns that the plan determines, and sets every `status` to pending.
pub(super) fn write(store: &Store, plan: &Plan) -> Result<()> {
    match &plan.feature {
        Feature::Mel(_) => mel::layout::write_columns(store, plan),
        Feature::Tokens(tokens) => tokens::layout::write_columns(tokens, store, plan),
    }
}
