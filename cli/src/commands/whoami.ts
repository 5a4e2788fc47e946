import { meReply } from "@svc/proto";
import { command } from "../command.ts";
import { CliError } from "../errors.ts";

export const whoami = command({
  name: "whoami",
  summary: "Show which platform you talk to, and as whom",
  examples: ["svc whoami"],
  async run(context) {
    const { apiUrl, source } = await context.credentials();
    const { user, scopes, projectIds } = await (await context.api()).get("/me", meReply).catch(explained);
    const { id, email, name, plan } = user;
    const message = `${email} at ${apiUrl}`;
    return { message, apiUrl, source, user: { id, email, name, plan }, scopes, projectIds };
  },
  render: ({ message, source, user, scopes, projectIds }, { paint }) =>
    [
      paint("bold", message),
      `  plan      ${user.plan}`,
      `  key from  ${source === "env" ? "SVC_TOKEN" : "the stored login"}`,
      `  access    ${scopes === null ? "full" : scopes.join(", ") || "none"}`,
      ...(projectIds === null ? [] : [`  projects  ${projectIds.join(", ")}`]),
    ].join("\n"),
});

/** Whoever has a key may ask who they are, but for a key that deploys from CI. */
function explained(thrown: unknown): never {
  if (!(thrown instanceof CliError) || thrown.code !== "CLOUD_FORBIDDEN_SCOPE") throw thrown;
  const { code, message, server } = thrown;
  throw new CliError(code, message, {
    hint: "Such a key only deploys its one project: `svc deploy --project <id>`. To see who you are, run `svc login`",
    ...(server && { server }),
  });
}
