//! What an API key may use through the pools it is limited to, and how pools get onto a key's list. Asks the store.

use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::core::sched::naming::slug;
use crate::store::sqlite::{Conn, SqlError, SqlErrorKind, share_groups, share_keys, share_pools};

/// Texts in the order they came, each once.
#[derive(Debug, Default)]
struct Unique {
    list: Vec<String>,
    seen: FxHashSet<String>,
}

impl Unique {
    fn add(&mut self, text: &str) {
        if self.seen.insert(text.to_owned()) {
            self.list.push(text.to_owned());
        }
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Scope {
    pub connection_ids: Vec<String>,
    pub providers: Vec<String>,
    pub pool_slugs: Vec<String>,
}

/// The connections, providers and slugs that the pools give access to. A pool stands for its whole group; connections
/// that the host does not know, or knows no provider of, give none, and a group without any has no slug.
pub fn scope(conn: &Conn, pool_ids: &[String]) -> Result<Scope, SqlError> {
    let (mut groups, mut connections) = (Unique::default(), Unique::default());
    let (mut providers, mut slugs) = (Unique::default(), Unique::default());
    for id in pool_ids {
        if let Some(pool) = share_pools::get(conn, id)? {
            groups.add(&pool.group_id);
        }
    }
    for group in groups.list {
        let mut served = false;
        for id in share_pools::list_by_group(conn, &group)?
            .iter()
            .flat_map(|pool| &pool.connection_ids)
        {
            if let Some(provider) = provider_of(conn, id)? {
                served = true;
                connections.add(id);
                providers.add(&provider);
            }
        }
        if served {
            let name = share_groups::get(conn, &group)?.map_or(group, |group| group.name);
            slugs.add(&slug(&name));
        }
    }
    Ok(Scope {
        connection_ids: connections.list,
        providers: providers.list,
        pool_slugs: slugs.list,
    })
}

/// A database of our own has no table of connections.
fn provider_of(conn: &Conn, connection_id: &str) -> Result<Option<String>, SqlError> {
    match share_pools::provider_of(conn, connection_id) {
        Err(error) if error.kind() == SqlErrorKind::MissingTable => Ok(None),
        found => Ok(found?.filter(|provider| !provider.is_empty())),
    }
}

/// Brings the lists of keys in step with a pool's allocations: of the keys before and after the change, those that hold an
/// exclusive pool now have it on their list, all others do not.
pub fn reconcile(
    conn: &Conn,
    pool: &str,
    before: &[String],
    after: &[String],
    exclusive: bool,
) -> Result<(), SqlError> {
    let holders: FxHashSet<&str> = if exclusive {
        after.iter().map(String::as_str).collect()
    } else {
        FxHashSet::default()
    };
    let mut keys = Unique::default();
    before.iter().chain(after).for_each(|key| keys.add(key));
    conn.transaction(|conn| {
        for key in &keys.list {
            let Some(mut pools) = share_keys::allowed(conn, key)? else {
                continue;
            };
            let listed = pools.iter().any(|id| id.as_str() == Some(pool));
            let holds = holders.contains(key.as_str());
            if listed == holds {
                continue;
            }
            if holds {
                pools.push(Value::from(pool));
            } else {
                pools.retain(|id| id.as_str() != Some(pool));
            }
            share_keys::set_allowed(conn, key, pools)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::{Scope, reconcile, scope};
    use crate::store::sqlite::{Conn, share_keys, share_pools, share_schema};

    #[test]
    fn a_database_of_our_own_knows_no_keys_and_no_providers() {
        let conn = Conn::open_memory().expect("a database");
        share_schema::ensure(&conn).expect("the tables");
        let pool = share_pools::NewPool {
            id: "p",
            connection_ids: &["c".to_owned()],
            name: "Pool",
            group_id: share_schema::DEFAULT_GROUP,
            created_at: "",
            allocations: &[],
        };
        share_pools::create(&conn, &pool).expect("the pool");
        let ids = ["p".to_owned(), "missing".to_owned()];
        assert_eq!(scope(&conn, &ids).expect("no error"), Scope::default());
        reconcile(&conn, "p", &[], &["k".to_owned()], true).expect("passed over");
        assert_eq!(share_keys::allowed(&conn, "k").expect("no error"), None);
    }
}
