//! What API keys may use, as JavaScript asks. Checks, converts, calls.

use napi_derive::napi;

use super::error::Result;
use super::share::ShareEngine;
use crate::engine::share::access;

#[napi(object)]
pub struct ShareScope {
    pub connection_ids: Vec<String>,
    pub providers: Vec<String>,
    pub pool_slugs: Vec<String>,
}

#[napi]
impl ShareEngine {
    #[napi(catch_unwind)]
    pub fn key_scope(&self, pool_ids: Vec<String>) -> Result<ShareScope> {
        let scope = access::scope(&self.conn()?, &pool_ids)?;
        Ok(ShareScope {
            connection_ids: scope.connection_ids,
            providers: scope.providers,
            pool_slugs: scope.pool_slugs,
        })
    }

    #[napi(catch_unwind)]
    pub fn reconcile_keys(
        &self,
        pool: String,
        before: Vec<String>,
        after: Vec<String>,
        exclusive: bool,
    ) -> Result<()> {
        Ok(access::reconcile(
            &self.conn()?,
            &pool,
            &before,
            &after,
            exclusive,
        )?)
    }
}
