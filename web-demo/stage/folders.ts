// The folders of a demonstration. Nobody else can read them.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, statfsSync } from "node:fs";
import { freemem, tmpdir } from "node:os";
import { join } from "node:path";

const PREFIX = "mailroom-demo-";

/** Memory as a file system, where the operating system has it, and how much of it must be free. */
const SHARED_MEMORY = "/dev/shm";
const ENOUGH = 2 ** 30;

/** Removes the folders when its input ends, which is when this process ends at the latest. */
const REMOVE = 'read -r _; until rm -rf "$@"; do sleep 0.2; done';

export interface Folders {
  /** For keys and logs. */
  readonly folder: string;
  /**
   * For what the edge's Durable Objects keep. workerd writes that in its only thread and waits for
   * the disk: on a busy disk every page would wait. So it is in memory, where there is room.
   */
  readonly objects: string;
}

export async function withFolders<T>(use: (folders: Folders) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), PREFIX));
  const objects = makeInMemory() ?? mkdtempSync(join(tmpdir(), PREFIX));
  const remover = spawn("/bin/sh", ["-c", REMOVE, "sh", folder, objects], {
    detached: true,
    stdio: ["pipe", "ignore", "inherit"],
  });
  try {
    return await use({ folder, objects });
  } finally {
    remover.stdin.end();
    await once(remover, "exit");
  }
}

function makeInMemory(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(SHARED_MEMORY);
    if (bavail * bsize < ENOUGH || freemem() < ENOUGH) return undefined;
    return mkdtempSync(join(SHARED_MEMORY, PREFIX));
  } catch {
    return undefined;
  }
}
