//! placeholder
#![allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Limiter;
impl Limiter {
    pub fn name(&self) -> String {
        String::new()
    }
    pub fn evidence(&self) -> String {
        String::new()
    }
}
