//! How each resource is addressed. There are many, and most in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use replica::{LocalId, Meta};
use serde::{Deserialize, Serialize};

use crate::replicas::request::Name;

/// How a resource is addressed, beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// The name of its kind in the profile.
    pub(crate) kind: String,
    /// What stands before its name's path.
    pub(crate) prefix: String,
    /// Its name in this site's service, as it was last: what is removed is known by it.
    pub(crate) local: Option<LocalId>,
}

impl Shape {
    /// The path of the resource with this name, for its service.
    pub(crate) fn path(&self, name: &Name) -> String {
        format!("{}{}", self.prefix, name.path())
    }
}

/// A kind and a prefix.
type Style = (String, String);

/// The shapes of all resources here.
#[derive(Default)]
pub(super) struct Shapes {
    shapes: BTreeMap<Meta, (Arc<Style>, Option<LocalId>)>,
    styles: BTreeSet<Arc<Style>>,
}

impl Shapes {
    pub(super) fn get(&self, meta: &Meta) -> Option<Shape> {
        let (style, local) = self.shapes.get(meta)?;
        let (kind, prefix) = (**style).clone();
        Some(Shape { kind, prefix, local: local.clone() })
    }

    pub(super) fn contains(&self, meta: &Meta) -> bool {
        self.shapes.contains_key(meta)
    }

    /// The same name, and that of the resource in the service here, as they are in memory already.
    pub(super) fn names(&self, meta: &Meta) -> Option<(&Meta, Option<&LocalId>)> {
        self.shapes.get_key_value(meta).map(|(meta, (_, local))| (meta, local.as_ref()))
    }

    pub(super) fn insert(&mut self, meta: Meta, Shape { kind, prefix, local }: Shape) {
        let style = (kind, prefix);
        let known = self.styles.get(&style).cloned();
        let style = known.unwrap_or_else(|| {
            let style = Arc::new(style);
            self.styles.insert(Arc::clone(&style));
            style
        });
        self.shapes.insert(meta, (style, local));
    }

    pub(super) fn remove(&mut self, meta: &Meta) -> Option<Shape> {
        let shape = self.get(meta)?;
        self.shapes.remove(meta);
        Some(shape)
    }
}
