//! Tier `make test-guests`: every machine of the testbed, booted and used.

mod channels;
mod nested {
    mod again;
    mod counting;
    mod guests;
    mod place;
}
mod tcg;
mod xen;
