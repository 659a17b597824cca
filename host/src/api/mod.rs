//! One endpoint, one file: the path follows the URL.
