//! dev
use super::report::Facts;
use transect_model::table::Tables;
#[derive(clap::Args)]
pub(crate) struct SourceArgs {}
pub(crate) fn tables(_p: &std::path::Path, _s: &SourceArgs, _w: Option<i64>) -> anyhow::Result<(Facts, Tables)> {
    anyhow::bail!("dev")
}
