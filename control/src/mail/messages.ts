/** A mail without its envelope. Plain text: it reads everywhere and hides no link. */
export interface Message {
  subject: string;
  text: string;
}

const lines = (...parts: string[]) => `${parts.join("\n\n")}\n`;

/** Asks to confirm the address; `url` opens the result page. */
export const verifyAddress = (url: string, instance: string): Message => ({
  subject: `Confirm your email address for ${instance}`,
  text: lines(
    `Somebody, most likely you, created an account on ${instance} with this address.`,
    `Open this link to confirm it. It works for one day.\n${url}`,
    "If it was not you, ignore this mail; without the confirmation nothing can be deployed.",
  ),
});

/** Lets the owner of the address choose a new password at `url`. */
export const resetPassword = (url: string, instance: string): Message => ({
  subject: `Choose a new password for ${instance}`,
  text: lines(
    `A new password was asked for your account on ${instance}.`,
    `Open this link to choose one. It works once, within an hour.\n${url}`,
    "If it was not you, ignore this mail; your password stays as it is.",
  ),
});
