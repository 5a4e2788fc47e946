import { registryLoginReply } from "@svc/proto";
import { CommandError, run } from "@svc/runtime/command";
import { command } from "../../command.ts";
import { CliError, fromServerError } from "../../errors.ts";

const dockerMs = 60_000;

export const registryLogin = command({
  name: "registry login",
  summary: "Log docker in to the platform's registry, to push images of your own",
  details:
    "The password is made for docker alone, goes to it by its standard input, and ends after some hours or with your own login. Images below the prefix that is shown are your account's, for all of its projects.",
  examples: ["svc registry login", "svc registry login --json"],
  async run(context) {
    const api = await context.api();
    const { login } = await api.post("/registry/login", registryLoginReply, {
      failure: (error) =>
        error.code === "NOT_FOUND"
          ? new CliError("CLOUD_REQUEST_FAILED", error.message, {
              hint: "Push the image to another registry, and name it in the manifest",
              server: error,
            })
          : fromServerError(error),
    });
    const { host, prefix, username, password, expiresAt } = login;
    context.terminal.hide(password);
    const loggedIn = await dockerLogin({ host, username, password }, context.signal);
    if (!loggedIn) context.warn(noDocker(host, username));
    const reference = `${host}/${prefix}<name>:<tag>`;
    return { registry: host, prefix, username, expiresAt, docker: loggedIn, reference };
  },
  render: ({ registry, expiresAt, docker, reference }, { paint }) =>
    [
      docker
        ? `${paint("green", "✓")} docker is logged in to ${registry} until ${expiresAt}`
        : `Images of your own go to ${registry}`,
      "",
      `  docker tag <image> ${reference}`,
      `  docker push ${reference}`,
      "",
      `and in svc.yml ${paint("dim", `image: { reference: ${reference} }`)}, then \`svc deploy\``,
    ].join("\n"),
});

/** False when this machine has no docker. */
async function dockerLogin(
  { host, username, password }: { host: string; username: string; password: string },
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const argv = ["docker", "login", host, "--username", username, "--password-stdin"] as const;
    await run(argv, { input: password, timeoutMs: dockerMs, signal });
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof CommandError)) throw error;
    if (isMissing(error)) return false;
    throw new CliError("CLOUD_REQUEST_FAILED", `docker could not log in to ${host}: ${lastLine(error.output)}`, {
      hint: "Whether docker reaches the registry, `docker info` and its settings tell",
    });
  }
}

const isMissing = ({ cause }: CommandError): boolean =>
  cause instanceof Error && "code" in cause && cause.code === "ENOENT";

const lastLine = (output: string): string => output.trim().split("\n").at(-1) ?? "";

const noDocker = (host: string, username: string): string =>
  `There is no docker on this machine. Other clients log in to ${host} as ${username} with an API key of the scope deploy as their password.`;
