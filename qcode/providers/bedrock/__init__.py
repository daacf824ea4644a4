"""Amazon Bedrock's Converse API; needs the extra `bedrock`."""
