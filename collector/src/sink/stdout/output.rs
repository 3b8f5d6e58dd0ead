//! What lines are written to, and what is known of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, fcntl_getfl, fstat, major, minor, open, seek};
use rustix::io::{Errno, ioctl_fionread, pread};
use rustix::param::page_size;
use rustix::pipe::{
    PIPE_BUF, PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, tee,
};

/// The largest pipe that is asked for: what Linux lets every user have.
const LARGEST_PIPE: usize = 1 << 20;

/// Why no lines can be written.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A closed standard output too, in whose place Rust opens the null device before `main`.
    #[error(
        "standard output is closed or discards what is written to it, and every mail would be lost; connect it to what \
         sends the mails: `mailroom collect | send-mails`"
    )]
    Discards,
    /// The operating system refuses.
    #[error("cannot start writing to standard output: {0}")]
    Refused(#[from] io::Error),
}

/// What decides when a line is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pipe,
    File,
    Other,
}

/// How a line can be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// All at once.
    Whole,
    /// In parts only, however long the reader reads.
    Parts,
    /// All at once when the reader has read more.
    NotYet,
}

/// An open file and its kind.
#[derive(Debug)]
pub(super) struct Output {
    file: OwnedFd,
    kind: Kind,
}

impl Output {
    pub(super) fn of(file: OwnedFd) -> Result<Self, StartError> {
        let state = fstat(&file).map_err(io::Error::from)?;
        let kind = match FileType::from_raw_mode(state.st_mode) {
            FileType::Fifo => Kind::Pipe,
            FileType::RegularFile => Kind::File,
            FileType::CharacterDevice if discards(&state) => return Err(StartError::Discards),
            _ => Kind::Other,
        };
        Ok(Self { file, kind })
    }

    #[cfg(test)]
    pub(super) fn taken_for(kind: Kind, file: OwnedFd) -> Self {
        Self { file, kind }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a line of `length` bytes can be written without waiting for the reader in between.
    pub(super) fn room(&self, length: usize) -> Result<Room, Errno> {
        // This much is always written whole, once the pipe is writable.
        if self.kind != Kind::Pipe || length <= PIPE_BUF {
            return Ok(Room::Whole);
        }
        let page = page_size();
        let needed = length.div_ceil(page);
        let mut pages = fcntl_getpipe_size(&self.file)? / page;
        if needed > pages && needed * page <= LARGEST_PIPE {
            // If the kernel refuses, it stays as large as it is.
            fcntl_setpipe_size(&self.file, needed * page).ok();
            pages = fcntl_getpipe_size(&self.file)? / page;
        }
        if needed > pages {
            return Ok(Room::Parts);
        }
        let unread = usize::try_from(ioctl_fionread(&self.file)?).unwrap_or(usize::MAX);
        // A write begins a new page where it does not fit into the last one, so two pages in a row hold more than one
        // page of bytes, except that the first may have been read in part.
        let used = if unread == 0 { 0 } else { 2 * (unread / page) + 2 };
        Ok(if used + needed <= pages { Room::Whole } else { Room::NotYet })
    }

    /// Whether the next byte would continue a line that somebody else began; also if that cannot be found out.
    pub(super) fn ends_within_a_line(&self) -> bool {
        let last = match self.kind {
            Kind::Pipe => last_byte_of_pipe(&self.file),
            Kind::File => last_byte_of_file(&self.file),
            Kind::Other => Ok(None),
        };
        last.map_or(true, |byte| byte.is_some_and(|byte| byte != b'\n'))
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether it is `/dev/null` or `/dev/zero`.
fn discards(state: &Stat) -> bool {
    major(state.st_rdev) == 1 && matches!(minor(state.st_rdev), 3 | 5)
}

/// The byte before the place where the next one would be written, if there is one.
fn last_byte_of_file(file: &OwnedFd) -> Result<Option<u8>, Errno> {
    let end = if fcntl_getfl(file)?.contains(OFlags::APPEND) {
        u64::try_from(fstat(file)?.st_size).map_err(|_| Errno::INVAL)?
    } else {
        seek(file, SeekFrom::Current(0))?
    };
    let Some(last) = end.checked_sub(1) else { return Ok(None) };
    let mut byte = [0];
    match pread(&reopened(file)?, &mut byte, last)? {
        0 => Err(Errno::INVAL),
        _ => Ok(Some(byte[0])),
    }
}

/// The last byte that nobody has read yet, if there is one. It stays in the pipe.
fn last_byte_of_pipe(file: &OwnedFd) -> Result<Option<u8>, Errno> {
    let unread = ioctl_fionread(file)?;
    if unread == 0 {
        return Ok(None);
    }
    let capacity = fcntl_getpipe_size(file)?;
    let (copy_reader, copy_writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&copy_writer, capacity)?;
    let copied = tee(&reopened(file)?, &copy_writer, capacity, SpliceFlags::NONBLOCK)?;
    let mut bytes = vec![0; copied];
    let mut read = 0;
    while read < copied {
        match rustix::io::read(&copy_reader, &mut bytes[read..])? {
            0 => break,
            count => read += count,
        }
    }
    if read < usize::try_from(unread).unwrap_or(usize::MAX) {
        Err(Errno::AGAIN)
    } else {
        Ok(bytes.last().copied())
    }
}

/// The same file, to be read.
fn reopened(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}
