//! Rows that list their columns, as table rows do.

/// A row of a live view: a struct that lists its columns in order.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $row:ident { $( $(#[doc = $cdoc:literal])+ $col:ident: $ty:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row { $( $(#[doc = $cdoc])+ pub $col: $ty, )* }

        impl $row {
            /// Names of the columns, in order.
            pub const COLUMNS: &'static [&'static str] = &[ $( stringify!($col) ),* ];

            /// Each column with its type and meaning, in order.
            pub const DOC: &'static [transect_model::column::Column] = &[ $(
                transect_model::column::Column {
                    name: stringify!($col),
                    doc: concat!($($cdoc),+),
                    ty: <$ty as transect_model::column::ColumnValue>::TYPE,
                    nullable: <$ty as transect_model::column::ColumnValue>::NULLABLE,
                }
            ),* ];

            /// Makes a row of the values of `source`: the way back from columns.
            ///
            /// # Errors
            /// The source's.
            pub fn read<S: transect_model::column::ColumnSource>(
                source: &mut S,
            ) -> Result<Self, S::Error> {
                Ok($row { $( $col: source.value(stringify!($col))?, )* })
            }
        }

        impl transect_model::cell::Record for $row {
            fn each_cell<'a>(
                &'a self,
                visit: &mut dyn FnMut(&'static str, transect_model::cell::Cell<'a>),
            ) {
                use transect_model::cell::ToCell;
                $( visit(stringify!($col), self.$col.to_cell()); )*
            }
        }
    };
}
pub(crate) use record;
