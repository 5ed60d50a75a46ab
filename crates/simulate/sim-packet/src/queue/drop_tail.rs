//! First come, first served; who finds no room is dropped. The plain switch of every paper's
//! baseline.

use crate::pool::{List, Pool};

#[derive(Debug, Default)]
pub(crate) struct DropTail {
    list: List,
}

impl DropTail {
    #[inline]
    pub(crate) fn push<E: Copy + Default>(&mut self, pool: &mut Pool<E>, id: u32) {
        self.list.push(pool, id);
    }

    #[inline]
    pub(crate) fn pop<E: Copy + Default>(&mut self, pool: &Pool<E>) -> Option<u32> {
        self.list.pop(pool)
    }
}
