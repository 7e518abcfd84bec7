use crate::Way;

/// One value for each direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ways<T> {
    pub(crate) to_server: T,
    pub(crate) to_client: T,
}

impl<T> Ways<T> {
    pub(crate) const fn of(&self, way: Way) -> &T {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }

    pub(crate) const fn of_mut(&mut self, way: Way) -> &mut T {
        match way {
            Way::ToServer => &mut self.to_server,
            Way::ToClient => &mut self.to_client,
        }
    }
}
