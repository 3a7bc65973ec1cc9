//! Pure rules: windows, leases, caps, cooldowns, learning, fair share. No clock, no SQL, no Node.
