//! Which runs the model is fitted to, and which it has to predict.

use super::run::Setting;

/// Registrations alone, with nothing to deliver.
const REGISTER: Setting = Setting {
    rows: 20_000,
    tokens: 2_000,
    writers: 4,
    registered_together: 1,
    payload: 0,
    collectors: 0,
    batch_limit: 10,
    is_backlog: false,
    visitors: 0,
};

/// Mails that wait already, to be delivered by one collector.
const DELIVER: Setting = Setting { tokens: 8_000, collectors: 1, is_backlog: true, ..REGISTER };

/// Everything at the same time.
const ALL: Setting = Setting { tokens: 1_000, collectors: 1, visitors: 4, ..REGISTER };

const CROWDED: Setting = Setting { writers: 16, collectors: 4, visitors: 32, ..ALL };

/// The model is fitted to these.
pub(super) const GRID: [(&str, Setting); 18] = [
    ("register, 1 a transaction", REGISTER),
    ("register, 16 writers", Setting { writers: 16, ..REGISTER }),
    ("register, 10 a transaction", Setting { registered_together: 10, ..REGISTER }),
    ("register, payload of 4,000 bytes", Setting { payload: 4_000, ..REGISTER }),
    ("deliver, batches of 1", Setting { batch_limit: 1, ..DELIVER }),
    ("deliver, batches of 10", DELIVER),
    ("deliver, batches of 100", Setting { batch_limit: 100, ..DELIVER }),
    ("deliver, batches of 10, 3 collectors", Setting { collectors: 3, ..DELIVER }),
    ("deliver and use, batches of 10", Setting { tokens: 1_000, visitors: 4, ..DELIVER }),
    ("all, batches of 1", Setting { batch_limit: 1, ..ALL }),
    ("all, batches of 100", Setting { batch_limit: 100, ..ALL }),
    ("all, payload of 4,000 bytes", Setting { payload: 4_000, ..ALL }),
    ("all, 200,000 tokens before", Setting { rows: 200_000, ..ALL }),
    ("all, 3 collectors", Setting { collectors: 3, ..ALL }),
    ("all, 16 visitors", Setting { visitors: 16, ..ALL }),
    ("all, 16 writers, 4 collectors, 32 visitors", CROWDED),
    ("register and deliver", Setting { visitors: 0, ..ALL }),
    ("register and deliver, 4 collectors", Setting { collectors: 4, visitors: 0, ..ALL }),
];

/// The fit uses none of these. The first five were there before the model had a part for several
/// collectors and for visitors, the others came afterwards. The fifth lies outside of the grid, in
/// its size, its payload and its batches; the last one in its collectors and its visitors.
pub(super) const HELD_BACK: [(&str, Setting); 8] = [
    (
        "8 writers, 2 collectors, batches of 25",
        Setting { writers: 8, collectors: 2, batch_limit: 25, visitors: 0, ..ALL },
    ),
    (
        "3 a transaction, payload of 1,000 bytes, 8 visitors",
        Setting { registered_together: 3, payload: 1_000, visitors: 8, ..ALL },
    ),
    (
        "16 writers, 3 collectors, batches of 3, 16 visitors",
        Setting { writers: 16, collectors: 3, batch_limit: 3, visitors: 16, ..ALL },
    ),
    ("deliver, batches of 4, 2 collectors", Setting { batch_limit: 4, collectors: 2, ..DELIVER }),
    (
        "400,000 before, 25 a transaction, payload of 6,000",
        Setting {
            rows: 400_000,
            registered_together: 25,
            payload: 6_000,
            batch_limit: 400,
            visitors: 32,
            ..ALL
        },
    ),
    (
        "2 writers, 2 collectors, batches of 50, 6 visitors",
        Setting { writers: 2, collectors: 2, batch_limit: 50, visitors: 6, ..ALL },
    ),
    (
        "12 writers, 3 collectors, 5 a transaction",
        Setting { writers: 12, collectors: 3, registered_together: 5, visitors: 0, ..ALL },
    ),
    (
        "8 writers, 6 collectors, payload of 2,000, 48 visitors",
        Setting { writers: 8, collectors: 6, payload: 2_000, visitors: 48, ..ALL },
    ),
];
