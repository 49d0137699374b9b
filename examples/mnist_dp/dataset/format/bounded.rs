//! Reading no more than there is room for, whatever a header promises and however well a file is packed.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// What `input` unpacks to, if it is gzipped, or else `input` as it is.
pub fn unpacked<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::new();
    input.by_ref().take(2).read_to_end(&mut start)?;
    let gzipped = start == [0x1f, 0x8b];
    let whole = Cursor::new(start).chain(input);
    Ok(if gzipped {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}

/// Everything that is left of `input`, or `None` if that is more than `most` bytes. Memory grows with what is there.
pub fn read_at_most(input: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|_| read as u64 <= most))
}
