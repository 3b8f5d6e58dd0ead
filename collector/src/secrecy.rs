//! Keeps what is in the memory and environment of this process from other processes of its user.
//!
//! A sender may run as the same user: the kernel would let it read keys and the password of the
//! database from `/proc`, or attach to this process.

/// Refuses other processes of the user, and writes no core dumps.
/// Root reads everything all the same.
///
/// Where the system knows neither, or forbids it, nothing changes.
pub(crate) fn keep() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).ok();
    }
}
