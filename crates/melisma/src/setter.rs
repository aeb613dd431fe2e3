//! Builder methods that only set a field.

/// `pub fn with_x(x: T);` becomes a method that sets the field `x`, converted where `T` is `impl Into<...>`.
macro_rules! setters {
    ($($(#[$attribute:meta])* pub fn $name:ident($field:ident: $type:ty);)+) => {$(
        $(#[$attribute])*
        #[must_use]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}
