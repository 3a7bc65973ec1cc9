//! Routes and accounts as small numbers, so that hot calls pass a handle instead of strings.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::core::route::RouteName;
use crate::store::sqlite::index::RouteRef;

/// A route that was named at least once.
#[derive(Debug)]
pub struct Route {
    pub platform: Rc<str>,
    pub model: Rc<str>,
    pub key: f64,
    pub account: u32,
}

impl Route {
    /// As the index is asked about it, under its handle.
    #[must_use]
    pub fn asked(&self, route: u32) -> RouteRef<'_> {
        RouteRef {
            route,
            account: self.account,
            name: self.name(),
        }
    }

    #[must_use]
    pub fn name(&self) -> RouteName<'_> {
        RouteName {
            platform: &self.platform,
            model: &self.model,
            key: self.key,
        }
    }
}

/// A platform and a key, over all models.
#[derive(Debug)]
pub struct Account {
    pub platform: Rc<str>,
    pub key: f64,
}

type AccountKey = (Rc<str>, u64);
type RouteKey = (u32, Rc<str>);

/// The table of handles. A handle stays valid until [`Routes::sweep`] lets it go.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_field_names,
    reason = "the table holds accounts beside the routes"
)]
pub struct Routes {
    routes: Vec<Option<Rc<Route>>>,
    accounts: Vec<Option<Rc<Account>>>,
    route_ids: FxHashMap<RouteKey, u32>,
    account_ids: FxHashMap<AccountKey, u32>,
    free_routes: Vec<u32>,
    free_accounts: Vec<u32>,
}

impl Routes {
    pub fn account(&mut self, platform: &str, key: f64) -> u32 {
        let bits = key_bits(key);
        let name: Rc<str> = platform.into();
        if let Some(id) = self.account_ids.get(&(Rc::clone(&name), bits)) {
            return *id;
        }
        let account = Rc::new(Account {
            platform: Rc::clone(&name),
            key,
        });
        let id = place(&mut self.accounts, &mut self.free_accounts, account);
        self.account_ids.insert((name, bits), id);
        id
    }

    pub fn route(&mut self, platform: &str, model: &str, key: f64) -> u32 {
        let account = self.account(platform, key);
        let model: Rc<str> = model.into();
        if let Some(id) = self.route_ids.get(&(account, Rc::clone(&model))) {
            return *id;
        }
        let Some(owner) = self.get_account(account) else {
            return u32::MAX;
        };
        let route = Rc::new(Route {
            platform: Rc::clone(&owner.platform),
            model: Rc::clone(&model),
            key,
            account,
        });
        let id = place(&mut self.routes, &mut self.free_routes, route);
        self.route_ids.insert((account, model), id);
        id
    }

    #[must_use]
    pub fn get(&self, id: u32) -> Option<&Rc<Route>> {
        self.routes.get(id as usize)?.as_ref()
    }

    #[must_use]
    pub fn get_account(&self, id: u32) -> Option<&Rc<Account>> {
        self.accounts.get(id as usize)?.as_ref()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.route_ids.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.route_ids.is_empty()
    }

    /// Frees the handles that nothing stands on. The caller forgets its own copies first.
    pub fn sweep(&mut self, in_use: impl Fn(u32) -> bool) {
        for id in 0..self.routes.len() {
            let handle = u32::try_from(id).unwrap_or(u32::MAX);
            if self.routes[id].is_some() && !in_use(handle) {
                if let Some(route) = self.routes[id].take() {
                    self.route_ids
                        .remove(&(route.account, Rc::clone(&route.model)));
                }
                self.free_routes.push(handle);
            }
        }
        let mut kept = vec![false; self.accounts.len()];
        for route in self.routes.iter().flatten() {
            kept[route.account as usize] = true;
        }
        for (id, kept) in kept.into_iter().enumerate() {
            if !kept && let Some(account) = self.accounts[id].take() {
                let key = key_bits(account.key);
                self.account_ids
                    .remove(&(Rc::clone(&account.platform), key));
                self.free_accounts
                    .push(u32::try_from(id).unwrap_or(u32::MAX));
            }
        }
    }
}

/// 0 and -0 are one key; every NaN is one.
fn key_bits(key: f64) -> u64 {
    if key.is_nan() {
        f64::NAN.to_bits()
    } else {
        (key + 0.0).to_bits()
    }
}

fn place<T>(slots: &mut Vec<Option<Rc<T>>>, free: &mut Vec<u32>, value: Rc<T>) -> u32 {
    if let Some(id) = free.pop() {
        slots[id as usize] = Some(value);
        return id;
    }
    slots.push(Some(value));
    u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_names_give_the_same_handles() {
        let mut routes = Routes::default();
        let first = routes.route("groq", "m", 1.0);
        assert_eq!(routes.route("groq", "m", 1.0), first);
        assert_ne!(routes.route("groq", "m", 2.0), first);
        assert_eq!(routes.account("groq", 0.0), routes.account("groq", -0.0));
    }

    #[test]
    fn unused_handles_are_given_out_again() {
        let mut routes = Routes::default();
        let kept = routes.route("groq", "kept", 1.0);
        let dropped = routes.route("navy", "dropped", 2.0);
        routes.sweep(|id| id == kept);
        assert!(routes.get(dropped).is_none());
        assert_eq!(routes.len(), 1);
        assert_eq!(routes.route("navy", "new", 3.0), dropped);
        assert_eq!(routes.route("groq", "kept", 1.0), kept);
    }
}
