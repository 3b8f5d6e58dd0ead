// Folders for files that last no longer than what uses them.

import { mkdtempSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SHARED_MEMORY = "/dev/shm";
const ENOUGH = 2 ** 30;

/**
 * Makes a folder: in memory if this machine has such a place with a gibibyte to spare, otherwise
 * among other temporary files. What waits for a disk before it goes on, as workerd does with every
 * Durable Object that writes, waits in memory for nobody else's files. The caller removes it.
 */
export function folderInMemory(prefix) {
  try {
    const { bavail, bsize } = statfsSync(SHARED_MEMORY);
    if (bavail * bsize >= ENOUGH) return mkdtempSync(join(SHARED_MEMORY, prefix));
  } catch {
    // Not every system has it, or lets everybody write there.
  }
  return mkdtempSync(join(tmpdir(), prefix));
}
