//! Weights as `--save` writes and `--load` reads them: a record of the bare model.

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::Bytes;

/// `model` with the weights of a record; what is wrong with the record, if something is.
pub fn from_bytes<M: Module>(model: M, bytes: Vec<u8>) -> Result<M, String> {
    ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes))
        // Without it Burn 0.22.1 panics at values of another kind, such as ints.
        .and_then(|record| model.try_load_record(record.cast_to_module_dtype()))
        .map_err(|error| error.to_string())
}

pub fn to_bytes<M: Module>(model: M) -> Result<Vec<u8>, String> {
    let bytes = model.into_record().into_bytes();
    bytes
        .map(|bytes| bytes.to_vec())
        .map_err(|error| error.to_string())
}
