//! How rows are declared: a struct, and once for each column its name, type and description.

/// A struct whose fields are the columns of a table, with `TABLE` that describes them and [`Record`](crate::cell::Record).
///
/// ```
/// transect_model::record_type! {
///     /// A share.
///     Share in "shares" {
///         /// From 0 to 1.
///         share: f64,
///     }
/// }
/// assert_eq!(Share::TABLE.columns[0].name, "share");
/// assert_eq!(Share::TABLE.columns[0].ty.sql_name(), "double");
/// ```
#[macro_export]
macro_rules! record_type {
    (
        $(#[doc = $doc:literal])*
        $row:ident in $table:literal { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $( $(#[doc = $cdoc])+ pub $col: $ty, )* }

        impl $row {
            /// The table this row belongs to, as SQL and the docs describe it.
            pub const TABLE: $crate::column::TableDoc = $crate::column::TableDoc {
                name: $table,
                doc: concat!($($doc),*),
                columns: &[ $( $crate::column::Column {
                    name: stringify!($col),
                    doc: concat!($($cdoc),+),
                    ty: <$ty as $crate::column::ColumnValue>::TYPE,
                    nullable: <$ty as $crate::column::ColumnValue>::NULLABLE,
                } ),* ],
            };
        }

        impl $crate::cell::Record for $row {
            fn each_cell<'a>(
                &'a self,
                visit: &mut dyn FnMut(&'static str, $crate::cell::Cell<'a>),
            ) {
                $( visit(stringify!($col), $crate::cell::ToCell::to_cell(&self.$col)); )*
            }
        }
    };
}
