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

    fn of(values: &[f64]) -> f64 {
        values.iter().copied().collect::<CompensatedSum>().total()
    }

    // That this equals SQLite's own sum is tested where SQLite is: with the counters' queries.
    #[test]
    fn small_summands_are_not_lost() {
        assert_eq!(of(&[]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(of(&[1e16, 1.0, 1.0, -1e16]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(
            of(&[1.0, f64::INFINITY, 2.0]).to_bits(),
            f64::INFINITY.to_bits()
        );
    }
}
