mod api_clients;
mod api_keys;
mod events;
mod lexicons;
mod permissions;
mod records;
mod scripts;
mod settings;
