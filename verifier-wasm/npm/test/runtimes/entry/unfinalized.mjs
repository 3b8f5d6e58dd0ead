// The suite where no code can learn that an object is gone,
// so that whatever must be freed would stay.

import "./without_finalizers.mjs";
import "./program.mjs";
