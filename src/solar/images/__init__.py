"""A photo file becomes pixels: decoded, turned upright, cut to a box and shrunk."""

from solar.images.boxes import Box as Box
from solar.images.boxes import crop as crop
from solar.images.boxes import parse_box as parse_box
from solar.images.decode import MAX_PIXELS as MAX_PIXELS
from solar.images.decode import DecodedImage as DecodedImage
from solar.images.decode import check_visible as check_visible
from solar.images.decode import image_size as image_size
from solar.images.decode import load as load
from solar.images.decode import read_image as read_image
from solar.images.readable import ImageError as ImageError
from solar.images.readable import Source as Source
from solar.images.roots import Root as Root
from solar.images.roots import Roots as Roots
from solar.images.scan import RAW_SUFFIXES as RAW_SUFFIXES
from solar.images.sources import Photos as Photos
from solar.images.sources import Stamp as Stamp
from solar.images.sources import collect as collect
from solar.images.sources import find_photos as find_photos
from solar.images.sources import scan_roots as scan_roots
