//! The sum of counters, rounded as SQLite's `SUM` rounds it (compensated, since 3.43), so that a total from memory equals
//! the total from SQL to the last bit.

/// Kahan–Babuška–Neumaier accumulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompensatedSum {
    sum: f64,
    error: f64,
}

impl CompensatedSum {
    pub fn add(&mut self, value: f64) {
        let total = self.sum + value;
        self.error += if self.sum.abs() > value.abs() {
            (self.sum - total) + value
        } else {
            (value - total) + self.sum
        };
        self.sum = total;
    }

    #[must_use]
    pub fn total(self) -> f64 {
        // An infinite sum has an error that is no number: SQLite leaves it out.
        if self.error.is_finite() {
            self.sum + self.error
        } else {
            self.sum
        }
    }
}

impl FromIterator<f64> for CompensatedSum {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        for value in values {
            sum.add(value);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Conn, Param};
    use proptest::prelude::*;

    fn by_sqlite(values: &[f64]) -> f64 {
        let conn = Conn::open_memory().unwrap();
        conn.execute("CREATE TABLE t (v REAL NOT NULL)", &[])
            .unwrap();
        for value in values {
            conn.execute("INSERT INTO t VALUES (?1)", &[Param::Num(*value)])
                .unwrap();
        }
        conn.query_row("SELECT SUM(v) FROM t", &[], |row| row.num(0))
            .unwrap()
            .flatten()
            .unwrap_or(0.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equals_sqlite_to_the_last_bit(values in prop::collection::vec(-1e18..1e18_f64, 0..40), small in prop::collection::vec(0.0..1.0_f64, 0..40)) {
            let mixed: Vec<f64> = values.iter().chain(&small).copied().collect();
            let ours = mixed.iter().copied().collect::<CompensatedSum>().total();
            prop_assert_eq!(ours.to_bits(), by_sqlite(&mixed).to_bits());
        }
    }

    #[test]
    fn infinity_stays_infinity() {
        let values = [1.0, f64::INFINITY, 2.0];
        let ours = values.into_iter().collect::<CompensatedSum>().total();
        assert_eq!(ours.to_bits(), by_sqlite(&values).to_bits());
    }
}
