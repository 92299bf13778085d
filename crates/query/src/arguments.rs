//! Arguments of table functions: numbers, texts, and queries.

use crate::allowed::check_is_query;
use datafusion::catalog::Session;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use futures::FutureExt;

/// A whole number of ns.
pub(crate) fn number(value: &Expr, what: &str, usage: &str) -> Result<i64> {
    literal(value).map_or_else(|| plan_err!("{what} must be a whole number of ns: {usage}"), Ok)
}

/// A number that is written without a point and without quotes.
pub(crate) fn whole(value: &Expr) -> Option<i64> {
    let is_whole = |value: &ScalarValue| value.data_type().is_integer();
    let written = match value {
        Expr::Literal(value, _) => is_whole(value),
        Expr::Negative(value) => matches!(&**value, Expr::Literal(value, _) if is_whole(value)),
        _ => false,
    };
    literal(value).filter(|_| written)
}

fn literal(value: &Expr) -> Option<i64> {
    match value {
        Expr::Literal(value, _) => integer(value),
        // A negative number is one that is negated.
        Expr::Negative(value) => match value.as_ref() {
            Expr::Literal(value, _) => integer(value).and_then(i64::checked_neg),
            _ => None,
        },
        _ => None,
    }
}

/// Is it `NULL`?
pub(crate) fn is_null(value: &Expr) -> bool {
    matches!(value, Expr::Literal(value, _) if value.is_null())
}

fn integer(value: &ScalarValue) -> Option<i64> {
    match value.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(value)) => value,
        _ => None,
    }
}

/// A text in quotes.
pub(crate) fn text(argument: &Expr, usage: &str) -> Result<String> {
    match argument {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => Ok(text.to_owned()),
            _ => plan_err!("{value} is not a text in quotes: {usage}"),
        },
        other => plan_err!("{other} must be in single quotes: {usage}"),
    }
}

/// The query that an argument stands for: a table's or view's name, a call of a table function,
/// or a query.
pub(crate) fn source(text: &str) -> String {
    let text = text.trim();
    let first = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    let is_query = ["select", "with", "values"].iter().any(|word| word.eq_ignore_ascii_case(first))
        || text.starts_with('(');
    if is_query { text.to_owned() } else { format!("SELECT * FROM {text}") }
}

/// The plan of an argument, see [`source`].
pub(crate) fn plan(session: &dyn Session, text: &str) -> Result<LogicalPlan> {
    let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
        return Err(DataFusionError::Internal("a session without SQL".to_owned()));
    };
    // Tables are registered in memory: planning never waits. If one ever did, this says so.
    let Some(planned) = state.create_logical_plan(&source(text)).now_or_never() else {
        return Err(DataFusionError::Internal(format!("planning of '{text}' blocked")));
    };
    let plan = planned?;
    check_is_query(&plan).map_err(|error| DataFusionError::Plan(error.to_string()))?;
    Ok(plan)
}
