//! What is kept in memory against the database itself, under changes from everywhere.

use std::rc::Rc;

use proptest::prelude::*;

use super::memory::View;
use super::{EnforceRequest, Outcome, ShareEngine, UsageView};
use crate::core::Compat;
use crate::core::share::plan::PlanDimension;
use crate::core::share::sliding::{bucket_index, window_ms};
use crate::engine::Link;
use crate::store::sqlite::{Conn, Param, share_consumption, share_schema};

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];
const DIMENSIONS: [(&str, &str); 3] = [
    ("p:tokens:hourly", "hourly"),
    ("p:usd:hourly", "hourly"),
    ("p:usd:5h", "5h"),
];
const PLAN: &str = r#"[{"unit":"tokens","window":"hourly","limit":30},{"unit":"usd","window":"hourly","limit":20},
    {"unit":"usd","window":"5h","limit":40}]"#;
const START: f64 = 1_790_000_000_000.0;

#[derive(Debug, Clone)]
enum Op {
    Consume {
        /// Which of two instances on the connection.
        engine: usize,
        key: usize,
        dimension: usize,
        cost: f64,
    },
    Record {
        key: usize,
        tokens: f64,
        usd: f64,
    },
    /// Another connection adds to a counter.
    Foreign {
        key: usize,
        dimension: usize,
        cost: f64,
    },
    /// The host's own SQL on this connection.
    HostSql(usize),
    /// A transaction of the host that is undone.
    Undone {
        key: usize,
        dimension: usize,
        cost: f64,
    },
    Later(f64),
    Compare,
}

const HOST_SQL: [&str; 11] = [
    "DELETE FROM quota_consumption WHERE api_key_id = 'k1'",
    "UPDATE quota_consumption SET consumed = consumed * 1.5 WHERE api_key_id = 'k2'",
    "UPDATE quota_allocations SET weight = 100 - weight",
    "UPDATE quota_allocations SET policy = 'soft' WHERE api_key_id = 'k0'",
    "UPDATE provider_plans SET dimensions_json = '[]'",
    "INSERT INTO host_log VALUES (1)",
    "INSERT INTO bare_log VALUES (abs(random()))",
    "DELETE FROM quota_consumption",
    // Takes the allocations away with it.
    "REPLACE INTO quota_pools VALUES ('p', 'c', 'P', '2026', 'group-demo')",
    "INSERT OR IGNORE INTO quota_allocations VALUES ('p', 'k0', 50, NULL, NULL, 'hard')",
    "DELETE FROM quota_pool_connections WHERE connection_id = 'd'",
];

fn op() -> impl Strategy<Value = Op> {
    let place = || (0..KEYS.len(), 0..DIMENSIONS.len(), 0.001..9.0_f64);
    prop_oneof![
        4 => (0..2_usize, place()).prop_map(|(engine, (key, dimension, cost))| Op::Consume { engine, key, dimension, cost }),
        2 => (0..KEYS.len(), 0.0..5.0_f64, 0.0..2.0_f64).prop_map(|(key, tokens, usd)| Op::Record { key, tokens, usd }),
        1 => place().prop_map(|(key, dimension, cost)| Op::Foreign { key, dimension, cost }),
        1 => (0..HOST_SQL.len()).prop_map(Op::HostSql),
        1 => place().prop_map(|(key, dimension, cost)| Op::Undone { key, dimension, cost }),
        1 => prop_oneof![Just(1000.0), Just(3_600_000.0), Just(9_000_000.0)].prop_map(Op::Later),
        6 => Just(Op::Compare),
    ]
}

fn seed(conn: &Conn) {
    share_schema::ensure(conn).unwrap();
    for sql in [
        "CREATE TABLE host_log (v INTEGER)",
        "CREATE TABLE bare_log (v INTEGER PRIMARY KEY) WITHOUT ROWID",
        "INSERT INTO quota_pools VALUES ('p', 'c', 'P', '2026', 'group-demo')",
        "INSERT INTO quota_pool_connections (pool_id, connection_id) VALUES ('p', 'c'), ('p', 'd')",
        "INSERT INTO quota_allocations VALUES ('p','k0',40,NULL,NULL,'hard'), ('p','k1',30,5,'usd','soft'), \
         ('p','k2',20,NULL,NULL,'burst'), ('p','k3',10,NULL,NULL,'hard')",
    ] {
        conn.execute_dynamic(sql, &[]).unwrap();
    }
    conn.execute(
        "INSERT INTO provider_plans VALUES ('c', 'kimi', ?1, 'manual', '2026')",
        &[Param::Text(PLAN)],
    )
    .unwrap();
}

fn compare(engine: &ShareEngine, conn: &Conn, now: f64) {
    let mut direct = View { conn, memory: None };
    for (dimension, window) in DIMENSIONS {
        let (dimension, bucket) = (Rc::from(dimension), bucket_index(now, window_ms(window)));
        for key in KEYS {
            let kept = engine
                .view(conn, |view| view.own(&dimension, key, bucket))
                .unwrap();
            assert_eq!(kept, direct.own(&dimension, key, bucket).unwrap());
        }
        let kept = engine
            .view(conn, |view| view.totals(&dimension, bucket))
            .unwrap();
        let asked = direct.totals(&dimension, bucket).unwrap();
        assert_eq!(
            (kept.curr.to_bits(), kept.prev.to_bits()),
            (asked.curr.to_bits(), asked.prev.to_bits())
        );
    }
    let fresh = ShareEngine::new(engine.link().clone(), Compat::Corrected);
    for key in KEYS {
        let membership = engine.view(conn, |view| view.membership(key, "c")).unwrap();
        assert_eq!(membership, direct.membership(key, "c").unwrap());
        let request = EnforceRequest {
            key,
            connection_id: "c",
            provider: "kimi",
            model: "",
            now,
            threshold: 0.5,
            signals: None,
        };
        let outcome = |engine: &ShareEngine| match engine.enforce(&request) {
            Outcome::NeedSignals(plan) => {
                let signals = vec![0.6; plan.enforced.len()];
                format!(
                    "{:?}",
                    engine.enforce(&EnforceRequest {
                        signals: Some((plan.id, &signals)),
                        ..request
                    })
                )
            }
            other => format!("{other:?}"),
        };
        assert_eq!(outcome(engine), outcome(&fresh));
    }
    let asked = [PlanDimension {
        unit: "usd".into(),
        window: "hourly".into(),
        limit: 20.0,
    }];
    for usage in [UsageView::Recorded, UsageView::Enforced] {
        let kept = engine.snapshot(conn, "p", &asked, usage, now).unwrap();
        assert_eq!(kept, fresh.snapshot(conn, "p", &asked, usage, now).unwrap());
    }
}

fn run(ops: &[Op], conn: &Conn, other: Option<&Conn>) {
    let link = Link::default();
    link.set_conn(Some(conn.clone()));
    let engines = [(); 2].map(|()| ShareEngine::new(link.clone(), Compat::Corrected));
    let engine = &engines[0];
    let compare_all = |now| engines.iter().for_each(|engine| compare(engine, conn, now));
    let mut now = START;
    for op in ops {
        match *op {
            Op::Consume {
                engine,
                key,
                dimension,
                cost,
            } => {
                let (dimension, window) = DIMENSIONS[dimension];
                engines[engine]
                    .consume(conn, KEYS[key], dimension, window_ms(window), cost, now)
                    .unwrap();
            }
            Op::Record { key, tokens, usd } => {
                engine.record(
                    KEYS[key],
                    "c",
                    "kimi",
                    "",
                    &super::Cost {
                        tokens,
                        usd,
                        requests: 1.0,
                    },
                    now,
                );
            }
            Op::Foreign {
                key,
                dimension,
                cost,
            } => {
                let (dimension, window) = DIMENSIONS[dimension];
                let bucket = bucket_index(now, window_ms(window));
                share_consumption::increment(
                    other.unwrap_or(conn),
                    KEYS[key],
                    dimension,
                    bucket,
                    cost,
                    now,
                )
                .unwrap();
            }
            Op::HostSql(which) => {
                conn.execute_dynamic(HOST_SQL[which], &[]).unwrap();
            }
            Op::Undone {
                key,
                dimension,
                cost,
            } => {
                conn.execute("BEGIN", &[]).unwrap();
                let (dimension, window) = DIMENSIONS[dimension];
                engine
                    .consume(conn, KEYS[key], dimension, window_ms(window), cost, now)
                    .unwrap();
                compare_all(now);
                conn.execute("ROLLBACK", &[]).unwrap();
            }
            Op::Later(ms) => now += ms,
            Op::Compare => compare_all(now),
        }
    }
    compare_all(now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn memory_equals_the_database_when_private(ops in prop::collection::vec(op(), 1..60)) {
        let conn = Conn::open_memory().unwrap();
        seed(&conn);
        run(&ops, &conn, None);
    }

    #[test]
    fn memory_equals_the_database_on_a_shared_file(ops in prop::collection::vec(op(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.db");
        let conn = Conn::open(&path).unwrap();
        seed(&conn);
        let other = Conn::open(&path).unwrap();
        run(&ops, &conn, Some(&other));
    }
}
