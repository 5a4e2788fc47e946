import type { Engine } from "../engine/engine.ts";
import { packTar, type TarEntry } from "./tar.ts";

/**
 * Engines with a BuildKit before 0.12.5 remove what they made as the target of a mount by a path of the host that the
 * step may have bent through a symbolic link meanwhile (CVE-2024-23652). On these every target is made part of the image
 * just before the step: what was there before it began the engine leaves alone.
 */

/** An image of empty files and a directory, once on each engine: nothing of it gets into anybody's context. */
const image = "svc-stubs:1";
const stage = "svc-stubs";
const directory = "/directory/";
const file = "/etc/hosts";

/** Has to be the first stage of a Dockerfile with stand-ins; it costs nothing when no step needs it. */
export const stubStage: readonly string[] = [`FROM ${image} AS ${stage}`];

/** Makes sure that the engine has what `stubStage` starts from. */
export async function provideStubs(engine: Pick<Engine, "findImage" | "importImage">): Promise<void> {
  if ((await engine.findImage(image)) === null) await engine.importImage(image, packTar(stubs()));
}

async function* stubs(): AsyncGenerator<TarEntry> {
  yield { kind: "directory", name: directory.slice(1, -1) };
  yield { kind: "directory", name: "etc" };
  for (const name of ["etc/hosts", "etc/resolv.conf"])
    yield { kind: "bytes", name, executable: false, content: Buffer.alloc(0) };
}

/** Whether a step, by its title, makes stand-ins. */
export const isStandIn = (title: string): boolean => title.includes(`--from=${stage} `);

export const isStubStage = (name: string): boolean => name.toLowerCase() === stage;

/** What a step will find something mounted upon. A path without white space, quotes and variables. */
export type MountTarget =
  | { kind: "directory"; path: string; owner?: string }
  /** It becomes empty. */
  | { kind: "file"; path: string }
  /** It becomes this file of the context. */
  | { kind: "same"; path: string; source: string };

/**
 * Instructions that make the targets of a step. Directories that are there already stay as they are. The first two
 * files are mounted for every step, and whatever an image has there is never seen.
 */
export const standIns = (targets: readonly MountTarget[]): string[] => [
  `COPY --from=${stage} ${file} /etc/resolv.conf /etc/`,
  ...targets.map(standIn),
];

function standIn(target: MountTarget): string {
  switch (target.kind) {
    case "directory": {
      const owner = target.owner === undefined ? "" : ` --chown=${target.owner}`;
      return `COPY --from=${stage}${owner} ${directory} ${target.path.replace(/\/*$/, "/")}`;
    }
    case "file":
      return `COPY --from=${stage} ${file} ${target.path}`;
    case "same":
      return `COPY ${target.source} ${target.path}`;
  }
}
