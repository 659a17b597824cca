//! From method and path to an endpoint.
