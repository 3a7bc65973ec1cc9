//! Events of one kind on one route, sorted by time, with running sums: how many after an instant, and their tokens.

/// Sums stay exact in 64 bits below this many events of at most [`MAX_TOKENS`] each.
const MAX_EVENTS: usize = 1 << 22;
/// A larger count, or one that is no integer, is left to SQL, whose sums overflow or turn into doubles then.
pub const MAX_TOKENS: i64 = 1 << 40;

/// Instants beyond this are nobody's clock: doubles stop telling milliseconds apart.
const MAX_INSTANT: f64 = 9_007_199_254_740_992.0;

#[must_use]
pub fn is_whole_instant(instant: f64) -> bool {
    instant.fract() == 0.0 && instant.abs() < MAX_INSTANT
}

/// A double that a column of INTEGER affinity stores as an integer and gives back unchanged.
#[must_use]
#[allow(clippy::cast_possible_truncation)] // checked to be whole and small enough
pub fn whole(number: f64) -> Option<i64> {
    is_whole_instant(number).then_some(number as i64)
}

/// A sorted series of events.
#[derive(Debug, Default)]
pub struct Series {
    /// Instants, ascending. The first `head` have left every window.
    times: Vec<i64>,
    /// `sums[i]`: tokens of the events before and at `i`. Empty when the events carry none.
    sums: Vec<i64>,
    head: usize,
    /// Where the last questions found their instants: windows move slowly.
    cursors: [std::cell::Cell<usize>; 2],
}

impl Series {
    /// From events in ascending order.
    #[must_use]
    pub fn new(events: impl IntoIterator<Item = (i64, i64)>, with_tokens: bool) -> Self {
        let mut series = Self::default();
        let mut sum = 0_i64;
        for (at, tokens) in events {
            series.times.push(at);
            if with_tokens {
                sum = sum.wrapping_add(tokens);
                series.sums.push(sum);
            }
        }
        series.times.shrink_to_fit();
        series.sums.shrink_to_fit();
        series
    }

    /// Whether sums may leave 64 bits.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.times.len() >= MAX_EVENTS
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len() - self.head
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.times.capacity() + self.sums.capacity()) * std::mem::size_of::<i64>()
    }

    /// Adds an event; at the end unless the clock stepped back.
    pub fn insert(&mut self, at: i64, tokens: i64, with_tokens: bool) {
        let place = match self.times.last() {
            Some(last) if at < *last => self.times.partition_point(|time| *time <= at),
            _ => self.times.len(),
        };
        self.head = self.head.min(place);
        if with_tokens {
            let before = if place == 0 { 0 } else { self.sums[place - 1] };
            self.sums.insert(place, before);
            for sum in &mut self.sums[place..] {
                *sum = sum.wrapping_add(tokens);
            }
        }
        self.times.insert(place, at);
    }

    /// Forgets events at or before an instant, when they are many enough to be worth it.
    pub fn forget_until(&mut self, instant: f64) {
        self.head = self.first_after(instant, 0);
        if self.head > 64 && self.head > self.times.len() / 2 {
            let base = if self.sums.is_empty() {
                0
            } else {
                self.sums[self.head - 1]
            };
            self.times.drain(..self.head);
            if !self.sums.is_empty() {
                self.sums.drain(..self.head);
                for sum in &mut self.sums {
                    *sum = sum.wrapping_sub(base);
                }
            }
            self.head = 0;
            self.times.shrink_to(self.times.len() * 2);
            self.sums.shrink_to(self.sums.len() * 2);
        }
    }

    /// Events after an instant. `window` (0 or 1) names the question, whose place is remembered.
    #[must_use]
    pub fn count_after(&self, instant: f64, window: usize) -> usize {
        self.times.len() - self.first_after(instant, window)
    }

    /// Tokens of the events after an instant.
    #[must_use]
    pub fn tokens_after(&self, instant: f64, window: usize) -> i64 {
        let Some(total) = self.sums.last() else {
            return 0;
        };
        match self.first_after(instant, window) {
            0 => *total,
            first => total.wrapping_sub(self.sums[first - 1]),
        }
    }

    /// The place of the first event after an instant: from the last place, by growing steps.
    #[allow(clippy::cast_precision_loss)] // instants are far below 2^53
    fn first_after(&self, instant: f64, window: usize) -> usize {
        let times = &self.times;
        let after = |place: usize| times[place] as f64 > instant;
        let start = self.cursors[window].get().min(times.len());
        let (mut low, mut high) = (start, start);
        let mut step = 1;
        if start < times.len() && !after(start) {
            // The answer lies further on.
            while high < times.len() && !after(high) {
                low = high + 1;
                high += step;
                step *= 2;
            }
            high = high.min(times.len());
        } else {
            // The answer lies here or further back.
            while low > 0 && after(low - 1) {
                high = low - 1;
                low = low.saturating_sub(step);
                step *= 2;
            }
        }
        let found = low + times[low..high].partition_point(|time| (*time as f64) <= instant);
        self.cursors[window].set(found);
        found
    }

    /// Instant and tokens (0 without sums) of the events after an instant, ascending.
    pub fn events_after(&self, instant: f64) -> impl Iterator<Item = (i64, i64)> {
        let first = self.first_after(instant, 0);
        let sum = |place: usize| self.sums.get(place).copied().unwrap_or(0);
        (first..self.times.len()).map(move |place| {
            let before = if place == 0 { 0 } else { sum(place - 1) };
            (self.times[place], sum(place).wrapping_sub(before))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_and_sums_as_a_plain_list_does(
            events in prop::collection::vec((0_i64..1000, 0_i64..100), 0..200),
            questions in prop::collection::vec((-10_i64..1010, 0_usize..2, prop::bool::weighted(0.1)), 1..50),
        ) {
            let mut series = Series::default();
            let mut plain: Vec<(i64, i64)> = Vec::new();
            let mut forgotten = i64::MIN;
            let mut rest = events.into_iter();
            for (instant, window, forget) in questions {
                for (at, tokens) in rest.by_ref().take(7) {
                    series.insert(at, tokens, true);
                    plain.push((at, tokens));
                }
                if forget {
                    series.forget_until(instant as f64);
                    forgotten = forgotten.max(instant);
                }
                // What was forgotten is not asked for again.
                let instant = instant.max(forgotten);
                let expected: Vec<_> = plain.iter().filter(|(at, _)| *at > instant).collect();
                prop_assert_eq!(series.count_after(instant as f64, window), expected.len());
                prop_assert_eq!(
                    series.tokens_after(instant as f64, window),
                    expected.iter().map(|(_, tokens)| tokens).sum::<i64>()
                );
            }
        }
    }

    #[test]
    fn a_fraction_of_a_millisecond_before_counts() {
        let series = Series::new([(10, 0), (20, 0)], false);
        assert_eq!(series.count_after(20.0, 0), 0);
        assert_eq!(series.count_after(20.0_f64.next_down(), 1), 1);
    }
}
