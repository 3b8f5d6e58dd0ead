//! The connections of the client, whose answers are read by [`Head`] before it reads them.

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::head::Head;

/// How many bytes wait for the client at most.
const MAX_WAITING: usize = 1 << 20;

/// Lets the client read heads that it would refuse, on any connection that it makes.
#[derive(Debug)]
pub(super) struct Lenient;

impl<In: Transport> Connector<In> for Lenient {
    type Out = Connection<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let connection =
            |inner| Connection { inner, head: Head::default(), input: Vec::new(), moves: false };
        Ok(chained.map(connection))
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection<T> {
    inner: T,
    head: Head,
    /// What the client has not read.
    input: Vec<u8>,
    /// Whether the client has read something of it last.
    moves: bool,
}

impl<T: Transport> Transport for Connection<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        // Another request, to which there is another answer.
        if self.head.is_over() {
            self.head.begin_next();
        }
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        // One wait, also if all of it is left out: the client counts its time.
        let has_come = self.inner.maybe_await_input(timeout)?;
        let buffers = self.inner.buffers();
        let read = buffers.input().len();
        self.head.read(buffers.input(), &mut self.input);
        buffers.input_consume(read);
        if self.input.len() > MAX_WAITING {
            return Err(Error::LargeResponseHeader(self.input.len(), MAX_WAITING));
        }
        Ok(has_come)
    }

    /// One that is odd is used once: what it sends next may belong to something else.
    fn is_open(&mut self) -> bool {
        !self.head.is_odd && self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl<T: Transport> Buffers for Connection<T> {
    fn output(&mut self) -> &mut [u8] {
        self.inner.buffers().output()
    }

    fn input(&self) -> &[u8] {
        &self.input
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.inner.buffers().input_append_buf()
    }

    fn input_appended(&mut self, amount: usize) {
        self.inner.buffers().input_appended(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.moves = amount > 0;
        self.input.drain(..amount);
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.inner.buffers().tmp_and_output()
    }

    fn can_use_input(&self) -> bool {
        !self.input.is_empty() && self.moves
    }
}
