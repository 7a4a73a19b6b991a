//! What people see in a browser.

mod every_page;
mod home;
mod invite;
mod sign_in;
