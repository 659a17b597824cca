//! Building the image.
pub async fn prepare(_cache_dir: &std::path::Path) -> Result<std::path::PathBuf, super::EngineError> {
    todo!()
}
