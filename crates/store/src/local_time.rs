//! Local time as nccl-tests prints it. Not a clock for measuring.

/// Now, as `%Y-%m-%d %H:%M:%S`.
pub fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S").to_string()
}
