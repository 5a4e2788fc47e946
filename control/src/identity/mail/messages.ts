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
    `Open this link and sign in to confirm it. It works for one day.\n${url}`,
    "If it was not you, ignore this mail; without the confirmation nothing can be deployed. You need not know the password: to have the account for yourself, choose a new one on the page to sign in.",
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

/** For who gave the right password while sign-ins to the account are held back; `url` opens the page to sign in. */
export const signInLink = (url: string, newPasswordUrl: string, instance: string): Message => ({
  subject: `Sign in to ${instance}`,
  text: lines(
    `Somebody, most likely you, gave the right password of your account on ${instance} in a browser that has not signed in to it before. So many wrong ones were tried lately that such browsers are held back.`,
    `Open this link and sign in there; the wrong ones of others are not counted against you. It works for one hour.\n${url}`,
    `If it was not you, somebody knows your password. Choose a new one:\n${newPasswordUrl}`,
  ),
});

/** For the owner of an address with which somebody tried to make a second account. */
export const alreadyRegistered = (signInUrl: string, instance: string): Message => ({
  subject: `You already have an account on ${instance}`,
  text: lines(
    `Somebody, most likely you, tried to create an account on ${instance} with this address. There already is one.`,
    `Sign in, or choose a new password there if you have forgotten yours:\n${signInUrl}`,
    "If it was not you, ignore this mail; nothing was changed.",
  ),
});

/** Tells the owner that an account at `githost` opens theirs from now on. */
export const accountLinked = (githost: string, homeUrl: string, instance: string): Message => ({
  subject: `${githost} was connected to your account on ${instance}`,
  text: lines(
    `An account at ${githost} was connected to yours on ${instance}. Whoever has it can sign in to your account.`,
    `If it was not you, choose a new password, then disconnect it here:\n${homeUrl}`,
  ),
});

/** Brings the code that makes an account with the address it is sent to. */
export const invitation = (url: string, instance: string, days: number): Message => ({
  subject: `You are invited to ${instance}`,
  text: lines(
    `An administrator of ${instance} invites you to host your web apps there.`,
    `Open this link to create your account. It works once, within ${days} days, and for this address only.\n${url}`,
    "If you did not expect it, ignore this mail.",
  ),
});
