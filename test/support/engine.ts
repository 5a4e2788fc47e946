import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureNodeImages } from "@svc/deploy/base-image";
import { ensureCaptureImage } from "@svc/deploy/capture-image";
import { ensureDatabaseImages } from "@svc/deploy/database-image";
import { provideEngine } from "@svc/deploy/engine";
import { nodeBinary } from "@svc/deploy/paths";
import { readSettings } from "@svc/deploy/settings";
import { defaultDatabaseImages } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";

/**
 * Once before all tests that need containers: an engine that answers, and the images of builds and of database servers.
 * An engine that was started here is stopped afterwards.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const { dockerSocket, ...images } = readSettings(process.env, ".");
  const dir = await mkdtemp(join(tmpdir(), "svc-engine-"));
  const log = (line: string) => console.error(`svc: ${line}`);
  const engine = await provideEngine({
    clock: systemClock,
    socketPath: dockerSocket,
    logFile: join(dir, "docker.log"),
    log,
  });
  await ensureNodeImages(images, { clock: systemClock, docker: engine.docker, nodeBinary: nodeBinary(), log });
  await ensureDatabaseImages({ clock: systemClock, docker: engine.docker, images: defaultDatabaseImages, log });
  const { captureImage } = images;
  await ensureCaptureImage({ clock: systemClock, docker: engine.docker, image: captureImage, log });
  return async () => {
    await engine[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  };
}
