/**
 * What pictures of sites are taken in by `npm start`. No public registry has it, since how its browser is started and reached is
 * the platform's own.
 */
export const defaultCaptureImage = "svc-capture:1";
