#![no_main]

use belvedere_web::http::websocket::{Gone, Socket};
use libfuzzer_sys::fuzz_target;
use tokio::io::AsyncWriteExt as _;

/// More than any input has.
const BUFFER: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(BUFFER);
        if client.write_all(data).await.is_err() || client.shutdown().await.is_err() {
            return;
        }
        let mut socket = Socket::over(server).await;
        assert_eq!(socket.wait_for(std::future::pending::<()>()).await, Err(Gone));
    });
});
