/** Whether a text is an IP address. The server decides for IPv6; what is not yet one while it is being typed is noticed here. */
export function isAddress(text: string): boolean {
  const parts = text.split('.')
  const isV4 = parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)
  return isV4 || /^(?=.*:.*:)[\da-f:]+(:\d+\.\d+\.\d+\.\d+)?$/i.test(text)
}
