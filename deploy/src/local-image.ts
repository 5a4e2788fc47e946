import type { Clock } from "@svc/runtime/clock";
import { spawnProgram } from "@svc/runtime/programs";
import type Docker from "dockerode";

/** A pull that reports nothing for this long has no registry behind it. */
const pullSilenceMs = 15_000;
const pullMs = 600_000;

export async function hasImage(docker: Docker, image: string): Promise<boolean> {
  try {
    await docker.getImage(image).inspect();
    return true;
  } catch (error) {
    if (error instanceof Error && "statusCode" in error && error.statusCode === 404) return false;
    throw error;
  }
}

/** Null when pulled, otherwise why not. */
export async function pull(clock: Clock, docker: Docker, image: string, signal: AbortSignal): Promise<string | null> {
  const silence = new AbortController();
  const fallSilent = () => silence.abort(new Error(`no answer within ${pullSilenceMs / 1000} s`));
  let timer = clock.after(pullSilenceMs, fallSilent);
  const abortSignal = AbortSignal.any([signal, silence.signal, clock.abortAfter(pullMs)]);
  try {
    const progress = await docker.pull(image, { abortSignal });
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(
        progress,
        (error: Error | null) => (error === null ? resolve() : reject(error)),
        () => {
          timer[Symbol.dispose]();
          timer = clock.after(pullSilenceMs, fallSilent);
        },
      );
      abortSignal.addEventListener("abort", () => reject(abortSignal.reason), { once: true });
    });
    return null;
  } catch (error) {
    signal.throwIfAborted();
    return silence.signal.aborted
      ? String(silence.signal.reason)
      : error instanceof Error
        ? error.message
        : String(error);
  } finally {
    timer[Symbol.dispose]();
  }
}

/**
 * Streams the directory `root` as one layer into the engine; the name appears only when everything has arrived.
 *
 * @param changes instructions of a Dockerfile that say what the image is besides its files
 */
export async function importImage(
  docker: Docker,
  image: string,
  { root, changes }: { root: string; changes: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const at = image.lastIndexOf(":");
  const tar = spawnProgram(["tar", "--create", "--numeric-owner", "--directory", root, "."], {
    stdio: ["ignore", "pipe", "ignore"],
    signal,
  });
  const ended = new Promise<void>((resolve, reject) => {
    tar.once("error", reject);
    tar.once("close", (code) => (code === 0 ? resolve() : reject(new Error(`tar exited with code ${code}`))));
  });
  const progress = await docker.importImage(tar.stdout, {
    repo: image.slice(0, at),
    tag: image.slice(at + 1),
    changes: ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", ...changes],
    abortSignal: signal,
  });
  await Promise.all([
    ended,
    new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(progress, (error: Error | null) => (error === null ? resolve() : reject(error)));
    }),
  ]);
}
