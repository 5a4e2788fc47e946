import { defaultCaptureImage } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { ensureCaptureImage } from "../capture-image.ts";
import { readSettings } from "../settings.ts";

const say = (line: string) => console.error(`svc: ${line}`);

/** Makes the image in which screenshots are taken, on this machine's engine, under the name that is given. */
try {
  const [image = defaultCaptureImage] = process.argv.slice(2);
  const { dockerSocket } = readSettings(process.env, ".");
  const docker = new Docker({ socketPath: dockerSocket });
  const done = await ensureCaptureImage({ clock: systemClock, docker, image, log: say });
  say(`${image} is ${done}: SVC_CAPTURE_IMAGE names it to control, once every node has it`);
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
